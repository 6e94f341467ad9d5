/**
 * What authenticators keep as the user and give back at sign-in: our id, which says nothing about
 * the person.
 */
import type { AuthenticationResponseJSON } from '@simplewebauthn/server';

export const handleOf = (userId: string): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(userId);
export const userIdOf = ({ response }: AuthenticationResponseJSON): string =>
  Buffer.from(response.userHandle ?? '', 'base64url').toString();
