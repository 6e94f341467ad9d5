/**
 * Links in mails by which one recipient may approve or deny one approval, without signing in.
 *
 * Token: base64url of a JSON list, a dot, base64url of HMAC-SHA-256 over what stands before the dot. Nothing is stored: the
 * approval's row is decided once, whoever comes first, so a link that has been used decides nothing more.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { deriveKey } from '../../../shared/security/derived-keys.ts';

export interface DecisionLink {
  readonly approvalId: string;
  readonly tenantId: string;
  readonly decision: 'approve' | 'deny';
  /** Mail address that the link was sent to. */
  readonly recipient: string;
  readonly expiresAt: Date;
}
export type Opened = { readonly link: DecisionLink } | { readonly problem: 'invalid' | 'expired' };

export interface DecisionLinks {
  readonly issue: (link: DecisionLink) => string;
  readonly open: (token: string, now: Date) => Opened;
}

interface Keys {
  readonly webhook_secret: string | null;
  readonly secret_key: string | null;
  readonly secret_key_previous: string | null;
}
type Content = [
  approvalId: string,
  tenantId: string,
  decision: 'approve' | 'deny',
  recipient: string,
  expires: number,
];

const label = 'decision-link';
/** An address has at most 254 characters, which JSON and base64url may make eight times as long. */
const longest = 4000;

/** WEBHOOK_SECRET signs; where it is not set, SECRET_KEY does, and links signed under SECRET_KEY_PREVIOUS still open. */
export function createDecisionLinks(keys: Keys): DecisionLinks {
  const current = keys.webhook_secret ?? keys.secret_key;
  if (current === null) throw new Error('WEBHOOK_SECRET or SECRET_KEY is needed to sign links');
  const previous = keys.webhook_secret === null ? keys.secret_key_previous : null;
  const key = deriveKey(current, label);
  const ring = previous === null ? [key] : [key, deriveKey(previous, label)];
  const sign = (body: string, key: Buffer): string =>
    createHmac('sha256', key).update(`${label}.${body}`).digest('base64url');

  return {
    issue({ approvalId, tenantId, decision, recipient, expiresAt }) {
      const content: Content = [
        approvalId,
        tenantId,
        decision,
        recipient,
        Math.floor(expiresAt.getTime() / 1000),
      ];
      const body = Buffer.from(JSON.stringify(content)).toString('base64url');
      return `${body}.${sign(body, key)}`;
    },
    open(token, now) {
      const [body, signature, ...rest] = token.length > longest ? [] : token.split('.');
      if (body === undefined || signature === undefined || rest.length > 0)
        return { problem: 'invalid' };
      // Compared as texts, so that no second spelling of the same bytes opens.
      if (!ring.some((key) => sameText(sign(body, key), signature))) return { problem: 'invalid' };
      const content = JSON.parse(Buffer.from(body, 'base64url').toString()) as Content;
      const [approvalId, tenantId, decision, recipient, expires] = content;
      if (expires * 1000 <= now.getTime()) return { problem: 'expired' };
      return {
        link: { approvalId, tenantId, decision, recipient, expiresAt: new Date(expires * 1000) },
      };
    },
  };
}

function sameText(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
