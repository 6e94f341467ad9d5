/**
 * JSON for people; nothing of undefined. Signs that turn what follows them around, digits included, are escaped: a text in
 * a value would have the others read as what they are not (Unicode Technical Standard 55).
 */
export const readableJson = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, null, indent) ?? '').replaceAll(
    /[\u202a-\u202e\u2066-\u2069]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16)}`,
  );
