/** Characters that nobody sees, or that change the order of others; `make assets` writes this file. */
// Unicode 17.0
export const HIDDEN = "\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f-\\u1160\\u17b4-\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffc\\ufffe-\\uffff\\u{13430}-\\u{1343f}\\u{13441}-\\u{13442}\\u{16fe4}\\u{1bca0}-\\u{1bca3}\\u{1d159}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}";
