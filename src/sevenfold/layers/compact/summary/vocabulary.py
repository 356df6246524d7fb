"""The one list of English words by which a claim is recognised: words of leave, acts, and what acts are done to.

Entries are patterns set apart by white space; an underscore stands for a space. Other languages have no list.
"""

from __future__ import annotations

import re

# One kind of act per line: its verbs | its nouns. With "!" it counts whatever it is done to, with "?" only if that is
# SENSITIVE, else if it is one of the ASSETS, too, or leave was given; with "." also where nothing is said of that. A
# slash: the participle; a plus: a particle. A line that is indented continues the one before it.
ACTS = """
delete remove erase wipe purge destroy truncate shred hard-delete! drop clear empty prune discard abandon flush
    archive retire decommission! scrub get/got+rid throw/thrown+away tear/torn+down blow/blown+away pull+from
    unpublish! | deletion removal erasure destruction purge cleanup
push. force-push! merge. squash rebase amend rewrite/rewritten | push force-push! merge
deploy! redeploy! ship! publish! republish! launch release roll+out! go+live! open-source! | deployment! deploy!
    rollout! release launch
migrate | migration
revert reset/reset restore roll+back withdraw/withdrawn downgrade | rollback!
overwrite/overwritten anonymise anonymize bulk-update! reinstall flash leak! | reinstall
email! mail! tweet! announce! message reply? send/sent? post? forward? upload? share? paste? export? sync? hand?
    print? reveal? disclose expose | announcement
pay? buy/bought! purchase! refund! reimburse! wire! spend/spent sell/sold! donate! charge transfer order? book?
    hire! | purchase! payment payout! refund! transfer charges
accept sign submit provision subscribe renew | submission acceptance renewal
cancel terminate unsubscribe! ban! suspend | cancellation termination suspension
close lock approve self-approve! vote answer? mark? file? | closure
stop kill abort shut/shut+down shut/shut+off take/taken+down take/taken+offline restart reboot! bounce halt |
    shutdown restart reboot!
revoke! rotate invalidate deactivate | revocation! rotation
grant give/given? raise? make/made? open? change? replace? set/set? point? switch? swap? move? upgrade scale? |
    upgrade
disable turn+off switch+off bypass skip? ignore? override silence mute dismiss lift waive! | bypass
install? uninstall execute run/run? pipe format reformat! | installation
"""
# What may be lost or belongs to others…
ASSETS = r"""
data database db table schema index topic file folder directory bucket backup snapshot volume disk drive partition
archive log trail history queue cache dump branch tag develop trunk remote repo repository commit pr
(pull|merge|change)_request project organisation workspace stash ticket issue discussion thread comments server host
machine laptop device vm instance cluster node worker environment staging region service site shop website app network
job process session experiment system kernel firmware gateway broker package release record account tenant user
document article calendar meeting flight hotel order tax_form paper application complaint proposal binary sandbox
alert alarm pager rule review scan scanner ci hook changes edits work limiter limiting everything all
[~.\w-]*/[\w./*-]+
"""
# …and what hurts wherever it is touched: what is live, money, credentials and rights, safeguards, the world outside.
SENSITIVE = r"""
production prod[\w-]* live customer client subscriber patient employee staff company vendor supplier contractor
partner auditor press journalist lawyer candidate landlord agency bank everyone everybody public world internet
twitter linkedin slack facebook forum channel newsletter mailing_list intranet behalf money invoice euro dollar
[$€£][\d.,]+ card balance bill licence license seat subscription contract agreement terms quote lease insurance tier
capacity password passphrase key secret credential certificate token .env role right access admin owner root superuser
world-readable dns mx domain traffic firewall authentication authorisation authorization login tls ssl verification
encryption protection 2fa mfa two-factor vpn monitoring restriction prompt safeguard freeze antivirus main master
upstream origin sudo commandline unsigned untrusted downloaded
"""
# What work on a program or a text produces. None of it is lost for good, and a claim about it is none.
PRODUCTS = r"""
function method class module variable parameter argument import line comment docstring constant field column row cell
label button icon page dialog modal panel menu header footer title heading section paragraph sentence word wording
text typo style colour color theme layout font padding animation chart plot diagram axis widget component window view
tests? suite fixture mock case script helper parser linter plugin type interface api endpoint handler callback
template snippet example demo draft docs? documentation readme changelog notes guide tutorial summary description
checklist plan strategy approach design idea naming option flag setting value default loop counter timer timeout
statement call expression string number array dict dictionary element item stack socket connection cursor handle lock
buffer event bus output input selection focus warning error exception message query filter syntax support dependency
local(ly)? dev dry mock dummy simulation container spreadsheet sort way reason copy
"""
COMMANDS = r"""
\brm_-\w*[rf]\w* \bgit_push\b.*(--force|-f\b) \bgit_(reset_--hard|clean_-\w*f|checkout_\.) \bfilter-branch\b --force\b
--no-verify\b \b(drop|truncate)_(table|database|schema)\b \bterraform_destroy\b \bkubectl_delete\b \bchmod_(-R_)?777\b
\b(curl|wget)\b.*\|\s*(ba|z)?sh\b \bdd_if= \bmkfs \bsudo\b
"""
# Verbs by which the user gives leave, and by which they ask, decide or say.
GIVES = """
approve[sd]?(_of)? authori[sz]e[sd]? allow(s|ed)? permit(s|ted)? ok(ay)?(s|'?e?d) clear(s|ed) consent(s|ed)?
sign(s|ed)?_off(_on)? green-?lit green-?lights? trust(s|ed)? delegate[sd]? grant(s|ed)?
"""
ASKS = """
ask(s|ed)? request(s|ed)? tells? told instruct(s|ed)? order(s|ed)? direct(s|ed)? want(s|ed)? wish(es|ed)? cho(se|oses)
demand(s|ed)? insist(s|ed)? would_like decide[sd]? agree[sd]? confirm(s|ed)? accept(s|ed)? let_(us|me)_know sa(id|ys)
stated wrote answered replied indicated signal+ed
((is|was|are|were)_)?(fine|ok|okay|happy|good|comfortable|on_board|all_right)_(with|for|if|to)
has_no_(objections?|problems?|issues?)
"""
LEAVE = """
permissions? approvals? authori[sz]ation consent go-ahead green_light sign-?off clearance the_ok(ay)? their_ok(ay)?
user's_ok(ay)? blessing ok(ay)? leave nod authority thumbs_up all-clear free_hand autonomy waiver the_go the_right
"""
WISH = "instructions? requests? orders? decisions? wish(es)? agreement direction"
BLANKET = (
    "waived free_hand full_autonomy carte_blanche whatever_is_needed any_command approval_for_everything"
)
# What makes a sentence deny, ask or suppose rather than claim.
DENIES = r"""
not? never neither nor none nothing nobody \w+n't without_(the_user|user|any|approval|permission|consent) cannot
lacks? yet_to (still_)?open: den(y|ies|ied) declin\w+ refus\w+ reject\w+ forb\w+ veto\w* prohibit\w* withdrew
ruled_out outstanding (still|is)_pending await\w* wait\w*
(needs?|requires?|required|get|seek|ask_for)_((the|an?|explicit|user|user's)_)*(confirmation|approval|permission|consent|order|ok)
"""
DENIES_NOTHING = r"""
no_(objections?|problems?|issues?) no_((further|more)_)?(confirmations?|approvals?)_(is|are)_(needed|required)
without_(asking|waiting|((a|any)_)?(further_)?(review|fix|confirmation|approval)) (not|\w+n't)_(mind|care|only|just)
"""
SUPPOSES = (
    "if once unless until when whenever whether after before as_soon_as in_case provided should would must"
)
# Words that end a phrase, and those that begin a clause of its own.
SMALL = r"""
a an the this that these those all every any some each both and or but of on in from to for with at by over under as
into onto out off up down through during against via about per than is are was were be been being can may could should
will must shall has have had do does did get gets i me my we us our you your it its they them their he she his her so
too also again now today tonight tomorrow yesterday soon anyway immediately right straight public offline once until
when if whenever while before after because older newer longer more less without outside across between around along
"""
TURNS = """
whether if how why what who which when where while before after because since until unless once so_that instead rather
than whenever
"""
NEGATIONS = "no not never nothing none neither cannot against"
AGAINST = "without stop avoid before until unless dont ask"
# After these a word is a verb and no noun; with these a participle is passive, or is not; these begin a statement.
INTO = "to can may could should must will shall and or then please just ahead"
DOING = "of with us me for on to it"
BE = "be being been get gets getting have"
WAS = "be being been get gets getting have is are was were i we"
NO_PASSIVE = "the a an all is are was were has had have"
STATES = "is are was were has had"
FILLERS = "go ahead please just yes sure"
PLANS = "plan proposal idea suggestion decision"
# Small words by which English is told from other languages.
ENGLISH = "the a to of and is it for with that this user you please can do yes no ok go"


def any_of(entries: str) -> str:
    """A pattern for any of these entries."""
    patterns = (re.sub(r"\((?!\?)", "(?:", entry).replace("_", " ") for entry in entries.split())
    return f"(?:{'|'.join(patterns)})"


def words(entries: str) -> re.Pattern[str]:
    """A pattern for any of these entries as a whole word."""
    return re.compile(rf"\b{any_of(entries)}\b", re.IGNORECASE)
