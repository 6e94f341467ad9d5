/**
 * Signatures of others that only they can make (RFC 7518, 3.1 and RFC 8037, 3.1): with HS* whoever
 * knows the key that verifies could make one, and `none` is nobody's.
 */
export const signatureAlgorithms: readonly string[] = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
