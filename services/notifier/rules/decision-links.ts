/**
 * Links in mails by which one recipient may approve or deny one approval, without signing in.
 *
 * A token is base64url of a JSON list, a dot, and base64url of HMAC-SHA-256 over `decision-link.`
 * and what stands before the dot. Nothing is stored: an approval is decided once, by whoever comes
 * first, so a link that was used decides nothing more.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { longestLinkToken, type Decision } from '../../../shared/contracts/notifier.ts';
import { deriveKey } from '../../../shared/security/derived-keys.ts';

export interface DecisionLink {
  readonly approvalId: string;
  readonly tenantId: string;
  readonly decision: Decision;
  /** Mail address that the link was sent to. */
  readonly recipient: string;
  /** In whole seconds. */
  readonly expiresAt: Date;
}
export type OpenedLink =
  { readonly link: DecisionLink } | { readonly problem: 'invalid' | 'expired' };

export interface DecisionLinks {
  readonly issue: (link: DecisionLink) => string;
  readonly open: (token: string, now: Date) => OpenedLink;
}

/** The settings of these names. */
export interface LinkSecrets {
  readonly webhook_secret: string | null;
  readonly secret_key: string | null;
  readonly secret_key_previous: string | null;
}
type Content = [
  approvalId: string,
  tenantId: string,
  decision: Decision,
  recipient: string,
  expiresSeconds: number,
];

const purpose = 'decision-link';

/**
 * SECRET_KEY signs, together with WEBHOOK_SECRET if that is set; links signed under
 * SECRET_KEY_PREVIOUS still open.
 */
export function createDecisionLinks(secrets: LinkSecrets): DecisionLinks {
  const [signingKey, ...olderKeys] = keysOf(secrets);

  return {
    issue({ approvalId, tenantId, decision, recipient, expiresAt }) {
      const expiresSeconds = Math.floor(expiresAt.getTime() / 1000);
      const content: Content = [approvalId, tenantId, decision, recipient, expiresSeconds];
      const body = Buffer.from(JSON.stringify(content)).toString('base64url');
      return `${body}.${signatureOf(body, signingKey)}`;
    },

    open(token, now) {
      if (token.length > longestLinkToken) return { problem: 'invalid' };
      const [body, signature, ...rest] = token.split('.');
      if (body === undefined || signature === undefined || rest.length > 0)
        return { problem: 'invalid' };
      // Compared as texts, so that no second spelling of the same bytes opens.
      const isOurs = [signingKey, ...olderKeys].some((key) =>
        isSameText(signatureOf(body, key), signature),
      );
      if (!isOurs) return { problem: 'invalid' };

      // Its signature says that `issue` made it, so its shape is known.
      const content = JSON.parse(Buffer.from(body, 'base64url').toString()) as Content;
      const [approvalId, tenantId, decision, recipient, expiresSeconds] = content;
      const expiresAt = new Date(expiresSeconds * 1000);
      if (expiresAt <= now) return { problem: 'expired' };
      return { link: { approvalId, tenantId, decision, recipient, expiresAt } };
    },
  };
}

/**
 * The key that signs, then those that only open. WEBHOOK_SECRET has any length: by itself a short
 * one could be found by whoever has a link, and would sign decisions of others.
 */
function keysOf(secrets: LinkSecrets): [Buffer, ...Buffer[]] {
  const { webhook_secret: own, secret_key: current, secret_key_previous: previous } = secrets;
  if (current === null) throw new Error('SECRET_KEY is needed to sign links');
  const keyOf = (secretKey: string): Buffer =>
    deriveKey(own === null ? secretKey : `${secretKey}.${own}`, purpose);
  return previous === null ? [keyOf(current)] : [keyOf(current), keyOf(previous)];
}

const signatureOf = (body: string, key: Buffer): string =>
  createHmac('sha256', key).update(`${purpose}.${body}`).digest('base64url');

/** Takes the same time whatever differs. */
function isSameText(a: string, b: string): boolean {
  const bytesOfA = Buffer.from(a);
  const bytesOfB = Buffer.from(b);
  return bytesOfA.length === bytesOfB.length && timingSafeEqual(bytesOfA, bytesOfB);
}
