"""How other languages than English speak of what somebody wants, allows or has agreed to.

For each the beginnings of the words for asking, wanting, permitting and agreeing, and what they call a user. They are
meant to find too much rather than too little: a sentence that is found must only rest on the user's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_STEMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "German": "genehmig zugestimm zustimmung einverstand einverständ erlaub freigegeb freigabe gebilligt abgesegnet"
        " grünes_licht wie_besproch wie_gewünsch wie_verlang wie_geforder wie_abgesproch wie_geplan wie_erbet"
        " wie_gesagt vereinbar auf_wunsch gewünscht verlangt angewiesen anweisung beauftragt gebeten bittet möchte"
        " benutzer nutzer anwender zugesagt",
        "Dutch": "goedgekeurd goedkeuring akkoord toestemming toegestaan groen_licht zoals_afgesprok zoals_gevraagd"
        " zoals_besprok zoals_gewenst op_verzoek gevraagd gebruiker opdracht",
        "French": "approuv d'accord l'accord autorisé autorise_ autorisation_d feu_vert comme_conven comme_demand"
        " comme_prévu comme_souhait comme_indiqu conformément demande_de souhait demandé utilisateur utilisatrice"
        " consentement validé exigé exige_ préfèr",
        "Spanish": "aprob acordó acordad acuerdo autoriz permiso visto_bueno luz_verde según_lo como_se_ solicit pidió"
        " pidie pedido pedida quiere_ desea usuario usuaria consentimiento instrucci prefiere confirmó",
        "Portuguese": "aprovad aprovou acordo combinad permissão conforme_ pediu usuário utilizador consentimento"
        " instruç prefere_",
        "Italian": "approvat concordat autorizzat permesso via_libera come_richiest come_da_accord come_stabilit"
        " richiest chiesto vuole_ desidera utente consenso istruzion preferisce",
        "Polish": "zatwierdz zgod pozwol zielone_światło prośb popros poleci użytkownik życz",
        "Russian": "одобр соглас разреш утвержд просьб договор попрос велел поруч хочет пользовател желан указани требу"
        " просил",
        "Turkish": "onay kullanıcı izin_ istedi talep talimat",
        "Arabic": "المستخدم وافق موافقة بموافقة طلب إذن",
        "Hindi": "सहमति अनुमति अनुरोध उपयोगकर्ता",
    }
)
"""Beginnings of words; a low line stands for a space."""
_SIGNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Japanese": "承認 同意 許可 了承 合意 了解を得 指示 依頼 要求 要望 希望"
        " 頼まれ 頼んだ 求め 言われた ユーザー とおり 通りに に従",
        "Chinese": "批准 许可 授权 授權 允许 允許 按照 请求 請求 用户 用戶 决定 決定 认可 吩咐 答应 要求 指示",
        "Korean": "승인 동의 허락 허가 요청 지시 사용자 원한다 원하 합의",
    }
)
"""In scripts that do not set words apart, anywhere."""
_WILL = re.compile(
    r"(?:\b(?:"
    + "|".join(re.escape(stem).replace("_", r"\s") for stems in _STEMS.values() for stem in stems.split())
    + ")|"
    + "|".join(sign for signs in _SIGNS.values() for sign in signs.split())
    + r")[^\W\u3040-\u9fff]*",
    re.IGNORECASE,
)


def speaks_of_will(sentence: str) -> bool:
    """Does it speak, in a language other than English, of what somebody wants or allows?"""
    return _WILL.search(sentence) is not None


def without_will(sentence: str) -> str:
    """The sentence without the words that do: what it says somebody wants."""
    return _WILL.sub(" ", sentence)
