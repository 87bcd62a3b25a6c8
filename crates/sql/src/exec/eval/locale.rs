//! How locales write numbers, for FORMAT().

/// The signs of a locale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NumberStyle {
    pub point: u8,
    pub separator: Option<u8>,
    /// Two digits between separators, except for the last three.
    pub pairs: bool,
}
impl NumberStyle {
    const fn of(point: u8, separator: Option<u8>) -> NumberStyle {
        NumberStyle { point, separator, pairs: false }
    }
    pub const EN_US: NumberStyle = NumberStyle::of(b'.', Some(b','));

    /// The style of a locale, whose name has no case. None for an unknown name.
    pub fn named(name: &[u8]) -> Option<NumberStyle> {
        let is_in =
            |list: &str| list.split_whitespace().any(|n| name.eq_ignore_ascii_case(n.as_bytes()));
        STYLES.iter().find(|(list, _)| is_in(list)).map(|(_, style)| *style)
    }

    /// True if a separator stands before the last `left` digits of a whole number.
    pub fn separates(self, left: usize) -> bool {
        if self.pairs { left == 3 || left > 3 && left % 2 == 1 } else { left.is_multiple_of(3) }
    }
}

/// The names of MySQL's locales, by style.
const STYLES: [(&str, NumberStyle); 9] = [
    (
        "en_US en_GB en_AU en_CA en_NZ en_PH en_ZA en_ZW ar_AE ar_BH ar_DZ ar_EG ar_IN ar_IQ ar_JO \
         ar_KW ar_LB ar_LY ar_MA ar_OM ar_QA ar_SD ar_SY ar_TN ar_YE es_DO es_GT es_HN es_MX es_NI \
         es_PA es_PE es_PR es_SV es_US gu_IN he_IL hi_IN ja_JP ko_KR ms_MY th_TH ur_PK zh_CN zh_HK \
         zh_TW",
        NumberStyle::EN_US,
    ),
    (
        "be_BY da_DK de_BE de_DE de_LU es_AR es_BO es_CL es_CO es_EC es_ES es_PY es_UY es_VE fo_FO \
         hu_HU id_ID is_IS lt_LT mn_MN nb_NO no_NO ro_RO ru_UA sq_AL tr_TR uk_UA vi_VN",
        NumberStyle::of(b',', Some(b'.')),
    ),
    (
        "ca_ES de_AT el_GR eu_ES fr_BE fr_CA fr_CH fr_FR fr_LU gl_ES hr_HR it_IT nl_BE nl_NL pl_PL \
         pt_BR pt_PT sl_SI",
        NumberStyle::of(b',', None),
    ),
    (
        "bg_BG cs_CZ es_CR et_EE fi_FI ka_GE lv_LV mk_MK ru_RU sk_SK sv_FI sv_SE",
        NumberStyle::of(b',', Some(b' ')),
    ),
    ("ar_SA sr_RS", NumberStyle::of(b'.', None)),
    ("de_CH", NumberStyle::of(b'.', Some(b'\''))),
    ("it_CH rm_CH", NumberStyle::of(b',', Some(b'\''))),
    ("en_IN ta_IN te_IN", NumberStyle { pairs: true, ..NumberStyle::EN_US }),
    // The former name of sr_RS.
    ("sr_YU", NumberStyle::of(b'.', None)),
];
