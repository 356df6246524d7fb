"""The one list of English words by which a claim is recognised: acts that are hard to take back, and words of leave.

Entries are patterns set apart by white space; an underscore stands for a space. Other languages have no list.
"""

from __future__ import annotations

import re

# When an act counts (always, when done to a thing, when done to a guard), its verbs | its nouns. Behind a slash is an
# irregular participle; a plus joins a verb and the particle that may follow its object.
ACTS = """
always  delete erase wipe purge destroy truncate shred decommission  | deletion removal erasure destruction
thing   remove drop clear clean empty prune discard abandon flush get/got+rid+of throw/thrown+away archive | cleanup
always  push force-push                                              | push force-push
thing   merge squash rebase amend rewrite/rewritten                  | merge
always  deploy redeploy ship publish launch release open-source roll+out go+live | deployment rollout release launch
always  migrate                                                      | migration
thing   revert reset/reset restore roll+back withdraw/withdrawn downgrade | rollback
always  overwrite/overwritten anonymise anonymize bulk-update leak   |
always  email mail tweet reply announce                              |
thing   send/sent post forward upload export sync share paste hand   |
always  pay/paid buy/bought purchase refund wire spend/spent sell/sold donate charge transfer | purchase payment payout
always  refund transfer                                              | refund transfer charges
thing   order book submit file provision subscribe                   | submission
always  cancel terminate unsubscribe ban suspend                     | cancellation termination
thing   close lock                                                   | closure
thing   stop kill abort shut/shut+down take/taken+down take/taken+offline restart reboot bounce | shutdown restart
always  revoke rotate invalidate deactivate                          | revocation rotation
thing   change replace set/set point switch move upgrade double raise | upgrade
thing   grant give/given elevate expose reveal print commit make/made open | exposure
guard   disable turn+off switch+off bypass skip ignore override silence mute waive dismiss lift remove drop |
thing   accept sign approve self-approve answer vote                 | acceptance
thing   install uninstall execute run/run pipe format reformat       |
"""
THINGS = """
file folder directory tree data database db schema table row record branch tag main master develop trunk upstream pr
request commit history stash change edit work repo repository bucket backup snapshot volume disk drive partition server
cluster instance node machine host laptop environment region site shop production account user customer subscriber
member employee role rights access permission admin owner superuser root password key token secret credential
certificate dns mx domain traffic queue job cache redis log index mail message newsletter comment post issue ticket
thread discussion forum channel slack twitter list page press reminder invoice order form application contract terms
agreement licence license renewal proposal claim complaint payment price balance purchase flight plan tier capacity
process session worker import export run migration script binary untrusted dump report module kernel internet public
vendor contractor auditor everything today sudo bash store rule prompt uploads duplicates port firewall archive
"""
GUARDS = """
authentication authorisation login tls ssl certificate verification encryption firewall protection limit limiter 2fa
mfa two-factor monitoring alert alarm pager rotation backup check prompt confirmation review test scan scanner ci
sandbox hook validation restriction approval
"""
COMMANDS = r"""
\brm_-\w*[rf]\w* \bgit_push\b.*(--force|-f\b) \bgit_(reset_--hard|clean_-\w*f|checkout_\.) \bfilter-branch --force\b
--no-verify\b \b(drop|truncate)_(table|database|schema)\b \bterraform_destroy\b \bkubectl_delete\b \bchmod_(-R_)?777\b
\b(curl|wget)\b.*\|\s*(ba|z)?sh\b \bdd_if= \bmkfs \bsudo\b
"""
GIVES = """
approve[sd]? authori[sz]e[sd]? allow(s|ed)? permit(s|ted)? ok(ay)?(s|'?e?d)? clear(s|ed) agree[sd]? consent(s|ed)?
confirm(s|ed)? accept(s|ed)? sign(s|ed)?_off decide[sd]? trust(s|ed)? (is|was|are|were)_(fine|ok|okay|happy)
has_no_(objections?|problems?)
"""
ORDERS = """
ask(s|ed)? request(s|ed)? tells? told instruct(s|ed)? order(s|ed)? direct(s|ed)? want(s|ed)? wish(es|ed)?
demand(s|ed)? insist(s|ed)? would_like
"""
SAYS = "sa(id|ys) stated wrote writes answered replied mentioned indicated signal+ed"
LEAVE = """
permission approvals? authori[sz]ation consent go-ahead green_light sign-?off clearance the_ok(ay)? blessing leave nod
authority instructions? orders? request decisions? agreement consensus wish free_hand autonomy waiver
"""
HAS = """
ga?ve gives? given granted got ha[sv]e? obtained with received there_is user('s)? by per under on at earlier following
"""
BLANKET = "waived free_hand full_autonomy carte_blanche whatever_is_needed approval_for_everything"
DENIES = r"""
not? never neither nor none nothing nobody without_(the_user|user|any|approval|permission|consent) reject\w+ \w+n't
den(y|ies|ied) declin\w+ refus\w+ forb\w+ veto\w* prohibit\w* disallow\w* against object\w* oppose\w* yet_to lacks?
(is|are|still)_outstanding await\w* ruled_out off_limits left_alone hold_off held_off stopped prevent\w* postpon\w+
rather mistake turned_down wait_for unclear clarified wonder\w* withdrew to_be_asked (get|seek|need)_the_user's
(needs?|requires?|required)_(the|an?|explicit|user|confirmation|approval)
(user_asks?|user_asked|know)(_\w+){0,2}_(whether|if|how|why|what|who|which|when|where|about|before)
"""
DENIES_NOTHING = r"""
no_(objections?|problems?) no_((further|more)_)?(confirmations?|approvals?)_(is|are)_(needed|required)
without_(asking|waiting|((a|any)_)?(review|fix|confirmation|approval)) (not|\w+n't)_(mind|care|only|just)
"""
# Words that may follow a noun that ends its phrase, and a verb that is not part of a noun.
AFTER_A_NOUN = r"""
and or but of on in from to for with that which who at by before after older over as into under without outside against
right now today tonight tomorrow is are was were be can may could should will has have had so again once until when if
whenever while via about anyway off down out public offline straight myself made taken withdrawn rewritten this the they
we i it because not next last through during #?\d+ \w+ed \w+ly
"""
AFTER_A_VERB = "the an? it them this that all every to with anyway now today everything and or as"
# Words between a verb of asking and what is asked for.
BETWEEN = r"""
me us we i you it that the an? any all this these to for on of with over so yes please go ahead and just then now also
assistant agent is was fine right okay ok have using use run running do \w+ly
"""
SUPPOSES = "if once unless until when whenever whether after before as_soon_as in_case provided"


def any_of(words: str) -> str:
    """A pattern for any of these entries."""
    return (
        "(?:" + "|".join(re.sub(r"\((?!\?)", "(?:", word).replace("_", " ") for word in words.split()) + ")"
    )
