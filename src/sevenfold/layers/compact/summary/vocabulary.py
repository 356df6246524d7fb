"""The one list of English words by which a claim is recognised: acts that are hard to take back, and words of leave.

Entries are patterns set apart by white space; an underscore stands for a space. Other languages have no list.
"""

from __future__ import annotations

import re

# What an act must be done to for it to count (anything, or one of the OBJECTS), its verbs | its nouns. Behind a slash
# is an irregular participle; a plus joins a verb and the particle that may follow its object.
ACTS = """
any       delete erase wipe purge destroy truncate shred decommission | deletion removal erasure destruction
data      remove drop clear empty prune discard abandon flush get/got+rid+of throw/thrown+away archive | cleanup
any       push force-push                                             | push force-push
branches  merge squash rebase amend rewrite/rewritten                 | merge
any       deploy redeploy ship publish launch release open-source roll+out go+live | deployment deploy rollout release
any       migrate                                                     | migration
data      revert reset/reset restore roll+back withdraw/withdrawn downgrade | rollback
any       overwrite/overwritten anonymise anonymize bulk-update leak  |
any       email mail tweet reply announce                             |
public    send/sent post forward upload export sync share paste hand  |
any       pay/paid buy/bought purchase refund wire spend/spent sell/sold donate charge | purchase payment payout refund
any       transfer                                                    | transfer charges
contracts order book submit file provision subscribe accept sign      | submission acceptance
any       cancel terminate unsubscribe ban suspend                    | cancellation termination
tracker   close lock approve self-approve answer vote                 | closure
machines  stop kill abort shut/shut+down take/taken+down take/taken+offline restart reboot bounce | shutdown restart
any       revoke rotate invalidate deactivate                         | revocation rotation
access    change replace set/set point switch grant give/given raise expose reveal print commit make/made open |
machines  move upgrade double scale                                   | upgrade
guards    disable turn+off switch+off bypass skip ignore override silence mute waive dismiss lift remove drop |
system    install uninstall execute run/run pipe format reformat upgrade | upgrade
"""
OBJECTS = r"""
data      file folder directory tree data database db schema table branch tag bucket backup snapshot volume disk
data      server cluster instance account customer user log history queue cache redis job stash repo repository token
data      secret credential password changes edits commit work uploads release main balance production store archive
data      rule dump comments PATH
branches  branch pr request main master develop trunk upstream commit history customers duplicates today everything
branches  PATH
public    key token password secret credential customer subscriber public vendor contractor supplier auditor press
public    slack twitter forum channel newsletter list issue internet dump database log reminder name behalf account
public    intern source_code customer_email
contracts contract agreement terms licence license renewal tax tax_form flight laptop ticket complaint application app
contracts machine review purchase policy insurance lease
tracker   issue ticket pr request discussion thread account proposal prompt helpdesk
machines  server host prod[\w-]* machine cluster node instance worker process job service site shop production
machines  database region run session import export queue postgres plan tier capacity
access    password key secret credential certificate token dns mx dns_record mx_record domain traffic admin owner root
access    superuser rights access role permission price public world-readable internet firewall database .env PATH
guards    authentication authorisation login tls ssl certificate verification encryption firewall protection
guards    rate_limiting limiter 2fa mfa two-factor monitoring alert alarm pager rotation backup prompt confirmation
guards    review scan scanner ci sandbox hook restriction approval antivirus ci_check health_check security_check
guards    certificate_check
system    system kernel sudo root binary untrusted unsigned sandbox bash antivirus dist-upgrade disk drive partition
system    volume server host postgresql python script migration PATH
"""
COMMANDS = r"""
\brm_-\w*[rf]\w* \bgit_push\b.*(--force|-f\b) \bgit_(reset_--hard|clean_-\w*f|checkout_\.) \bfilter-branch --force\b
--no-verify\b \b(drop|truncate)_(table|database|schema)\b \bterraform_destroy\b \bkubectl_delete\b \bchmod_(-R_)?777\b
\b(curl|wget)\b.*\|\s*(ba|z)?sh\b \bdd_if= \bmkfs \bsudo\b
"""
GIVES = """
approve[sd]? authori[sz]e[sd]? allow(s|ed)? permit(s|ted)? ok(ay)?(s|'?e?d)? clear(s|ed) agree[sd]? consent(s|ed)?
confirm(s|ed)? accept(s|ed)? sign(s|ed)?_off decide[sd]? trust(s|ed)? green-?lit delegated let_us_know
(is|was|are|were)_(fine|ok|okay|happy) has_no_(objections?|problems?|issues?)
"""
ORDERS = """
ask(s|ed)? request(s|ed)? tells? told instruct(s|ed)? order(s|ed)? direct(s|ed)? want(s|ed)? wish(es|ed)? cho(se|oses)
demand(s|ed)? insist(s|ed)? would_like
"""
SAYS = "sa(id|ys) stated wrote writes answered replied mentioned indicated signal+ed"
LEAVE = """
permission approvals? authori[sz]ation consent go-ahead green_light sign-?off clearance the_ok(ay)? blessing leave nod
authority instructions? orders?_(to|from|by) request decisions? thumbs_up agreement consensus wish all-clear free_hand
autonomy waiver
"""
HAS = """
ga?ve gives? given granted got ha[sv]e? obtained with received there_is user('s)? by per under on at earlier following
"""
BLANKET = "waived free_hand full_autonomy carte_blanche whatever_is_needed approval_for_everything"
DENIES = r"""
not? never neither nor none nothing nobody without_(the_user|user|any|approval|permission|consent) reject\w+ \w+n't
den(y|ies|ied) declin\w+ refus\w+ forb\w+ veto\w* prohibit\w* disallow\w* object\w* oppose\w* yet_to lacks?
(is|are|was|were)_against (is|are|still)_outstanding await\w* ruled_out off_limits left_alone hold_off held_off
stopped prevent\w* postpon\w+ would_rather rather_not mistake turned_down wait_for unclear clarified wonder\w*
withdrew to_be_asked (get|seek|need)_the_user's
(needs?|requires?|required)_(the|an?|explicit|user|confirmation|approval)
(user_asks?|user_asked|know)(_\w+){0,2}_(whether|if|how|why|what|who|which|when|where|about|before)
"""
DENIES_NOTHING = r"""
no_(objections?|problems?|issues?) no_((further|more)_)?(confirmations?|approvals?)_(is|are)_(needed|required)
without_(asking|waiting|((a|any)_)?(review|fix|confirmation|approval)) (not|\w+n't)_(mind|care|only|just)
"""
# Words that may follow a noun that ends its phrase, and a verb that is not part of a noun.
AFTER_A_NOUN = r"""
and or but of on in from to for with that which who at by before after older over as into under without outside
against right now today tonight tomorrow is are was were be can may could should will has have had so again once until
when if whenever while via about anyway off down out public offline straight myself made taken withdrawn rewritten
this the they we i it you because not even_though next last through during #?\d+ \w+ed \w+ly
"""
AFTER_A_VERB = "the an? it them this that all every to with anyway now today everything and or as"
# Words between a verb of asking and what is asked for.
BETWEEN = r"""
me us we i you it that the an? any all this these to for on of with over so yes please go ahead and just then now also
assistant agent is was fine right okay ok have using use run running do apply \w+ly (plan|proposal|decision|idea)_to
feel_free
"""
# Small words by which English is told from other languages.
ENGLISH = "the a to of and is it for with that this user you please can do yes no ok go"
SUPPOSES = "if once unless until when whenever whether after before as_soon_as in_case provided"


def any_of(entries: str) -> str:
    """A pattern for any of these entries."""
    patterns = (re.sub(r"\((?!\?)", "(?:", entry).replace("_", " ") for entry in entries.split())
    return f"(?:{'|'.join(patterns)})"


def words(entries: str) -> re.Pattern[str]:
    """A pattern for any of these entries as a whole word."""
    return re.compile(rf"\b{any_of(entries)}\b", re.IGNORECASE)
