/** Passkeys (W3C Web Authentication Level 3): always discoverable, their user always verified, no attestation asked for. */
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from '@simplewebauthn/server';
import { COSEALG, decodeAttestationObject } from '@simplewebauthn/server/helpers';
import { randomUUID } from 'node:crypto';
import { MoreThan, type DataSource } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { isUniqueViolation } from '../../../shared/database/failures.ts';
import { StrataError } from '../../../shared/errors.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import type { Settings } from '../../../shared/settings.ts';
import type { ShortLived } from '../../../shared/short-lived-state.ts';
import { judgeCounter } from '../rules/passkey-counter.ts';
import { PasskeyEntity, UserEntity, type PasskeyRow, type UserRow } from '../schema.ts';
import { authEvent as event, chooseTenant, type SignIn } from '../sign-in.ts';
import { addressOf } from './accounts.ts';

const challengeSeconds = 300;
/** Named, so that nodes with different runtimes agree. */
const supportedAlgorithmIDs = [COSEALG.EdDSA, COSEALG.ES256, COSEALG.RS256];
// Others carry certificates, which the library would check against lists that it fetches from addresses named in them.
const attestationFormats: readonly string[] = ['none', 'packed'];

interface Begun {
  readonly challenge: string;
  readonly email?: string;
}

/** What authenticators keep as the user, and give back at sign-in: says nothing about the person. */
const handleOf = (userId: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(userId);
const userOf = (handle: string): string => Buffer.from(handle, 'base64url').toString();

const shown = (row: PasskeyRow): ResultOf<'auth.webauthn.register.verify'> => ({
  id: row.id,
  name: row.name,
  aaguid: row.aaguid,
  transports: row.transports,
  backup_eligible: row.backup_eligible,
  backed_up: row.backed_up,
  created_at: row.created_at.toISOString(),
  last_used_at: row.last_used_at?.toISOString() ?? null,
});

export function passkeyActions(
  db: DataSource,
  settings: () => Settings,
  shortLived: ShortLived,
  { answer, open }: SignIn,
) {
  const rpID = (): string => new URL(settings().frontend_origin).hostname;
  const expected = (challenge: string) => ({
    expectedChallenge: challenge,
    expectedOrigin: settings().frontend_origin,
    expectedRPID: rpID(),
  });

  /** Keeps the challenge for its one use under `purpose`. */
  async function begin<T extends { challenge: string }>(
    purpose: string,
    publicKey: T,
    email?: string,
  ) {
    const id = randomUUID();
    const kept: Begun = {
      challenge: publicKey.challenge,
      ...(email === undefined ? {} : { email }),
    };
    await shortLived.put(`webauthn:${purpose}:${id}`, kept, challengeSeconds);
    return { challenge_id: id, publicKey, expires_in: challengeSeconds };
  }
  async function resume(purpose: string, id: string): Promise<Begun> {
    const begun = await shortLived.take<Begun>(`webauthn:${purpose}:${id}`);
    if (!begun) throw new StrataError('auth_webauthn_challenge_invalid');
    return begun;
  }

  /** The library throws for everything that does not fit. Why is logged, and nobody told. */
  async function verify<T extends { verified: boolean }>(
    request: Request,
    ceremony: () => Promise<T>,
  ): Promise<T | null> {
    try {
      const result = await ceremony();
      return result.verified ? result : null;
    } catch (error) {
      request.log.info({ err: error }, 'a passkey was refused');
      return null;
    }
  }

  /** Who has proved to be whom, with which passkey and counter; null for every reason not to believe it. */
  async function authenticate(
    { challenge, email }: Begun,
    response: Parameters<typeof verifyAuthenticationResponse>[0]['response'],
    request: Request,
  ) {
    const passkey = await db.manager.findOneBy(PasskeyEntity, { credential_id: response.id });
    const user = passkey && (await db.manager.findOneBy(UserEntity, { id: passkey.user_id }));
    if (!user || user.status !== 'active' || userOf(response.response.userHandle!) !== user.id)
      return null;
    if (email !== undefined && email !== user.email) return null;
    const result = await verify(request, () =>
      verifyAuthenticationResponse({
        response,
        ...expected(challenge),
        // Counter 0: the library would refuse synchronized passkeys too.
        credential: {
          id: passkey.credential_id,
          publicKey: new Uint8Array(passkey.public_key),
          counter: 0,
        },
      }),
    );
    if (
      !result ||
      (result.authenticationInfo.credentialDeviceType === 'multiDevice') !== passkey.backup_eligible
    )
      return null;
    const { newCounter: counter, credentialBackedUp: backedUp } = result.authenticationInfo;
    return { user, passkey, counter, backedUp };
  }

  /** The session, or null where the passkey is a copy, or it or the account is gone by now. */
  function enter(
    user: UserRow,
    passkeyId: string,
    counter: number,
    backedUp: boolean,
    tenant: ReturnType<typeof chooseTenant>,
    request: Request,
  ) {
    return db.transaction(async (manager) => {
      // Locked until the session is there: whoever disables the account afterwards ends this session too.
      const current = await manager.findOne(UserEntity, {
        where: { id: user.id },
        lock: { mode: 'pessimistic_read' },
      });
      const passkey = await manager.findOne(PasskeyEntity, {
        where: { id: passkeyId },
        lock: { mode: 'pessimistic_write' },
      });
      if (current?.status !== 'active' || !passkey) return null;
      const judgement = judgeCounter(passkey, counter);
      if (judgement !== 'fine') {
        const payload = {
          passkey_id: passkeyId,
          stored: passkey.counter,
          presented: counter,
          refused: judgement === 'cloned',
        };
        await recordEvents(manager, [
          auditFacts(
            event('auth.passkey_counter_regressed', user.id, tenant?.tenant_id ?? null, payload),
            request,
          ),
        ]);
      }
      if (judgement === 'cloned') return null;
      await manager.update(
        PasskeyEntity,
        { id: passkeyId },
        { counter, backed_up: backedUp, last_used_at: new Date() },
      );
      return open(manager, user, tenant, request, 'passkey');
    });
  }

  return {
    /** The same whether or not the address has an account or passkeys: it is looked at only when a passkey has proved whose it is. */
    'auth.webauthn.login.options': async ({ body: { email } }) =>
      begin(
        'login',
        await generateAuthenticationOptions({
          rpID: rpID(),
          allowCredentials: [],
          userVerification: 'required',
          timeout: challengeSeconds * 1000,
          extensions: {},
        }),
        email === undefined ? undefined : addressOf(email),
      ),

    async 'auth.webauthn.login.verify'(
      { body: { challenge_id: id, credential, tenant_id: asked } },
      request,
    ) {
      const proved = await authenticate(await resume('login', id), credential, request);
      if (!proved) {
        await recordEvents(db.manager, [
          auditFacts(
            {
              action: 'auth.login_failed',
              tenant_id: null,
              target: null,
              payload: { method: 'passkey' },
              actor: { type: 'system', id: 'auth' },
            },
            request,
          ),
        ]);
        throw new StrataError('auth_webauthn_verification_failed');
      }
      const { user, passkey, counter, backedUp } = proved;
      const tenant = chooseTenant(
        await request.call('tenant-config.members.of', { user_id: user.id }),
        asked,
      );
      const entered = await enter(user, passkey.id, counter, backedUp, tenant, request);
      if (!entered) throw new StrataError('auth_webauthn_verification_failed');
      return answer(user, entered.session, entered.refresh, request.call);
    },

    async 'auth.webauthn.register.options'(_params, { caller }) {
      const user = await db.manager.findOneByOrFail(UserEntity, { id: caller.id });
      const known = await db.manager.findBy(PasskeyEntity, { user_id: user.id });
      return begin(
        `register:${user.id}`,
        await generateRegistrationOptions({
          rpName: 'Strata',
          rpID: rpID(),
          userID: handleOf(user.id),
          userName: user.email,
          userDisplayName: user.display_name ?? user.email,
          attestationType: 'none',
          authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
          supportedAlgorithmIDs,
          excludeCredentials: known.map(({ credential_id: id, transports }) => ({
            id,
            transports,
          })),
          timeout: challengeSeconds * 1000,
        }),
      );
    },

    async 'auth.webauthn.register.verify'(
      { body: { challenge_id: id, credential, name } },
      request,
    ) {
      const { caller } = request;
      const { challenge } = await resume(`register:${caller.id}`, id);
      const result = await verify(request, async () => {
        const format = decodeAttestationObject(
          new Uint8Array(Buffer.from(credential.response.attestationObject, 'base64url')),
        ).get('fmt');
        if (!attestationFormats.includes(format))
          throw new Error(`attestation of the format ${format}`);
        return verifyRegistrationResponse({
          response: credential,
          ...expected(challenge),
          supportedAlgorithmIDs,
        });
      });
      // The library does not compare them, and only the outer id has been measured by the contract.
      if (result?.registrationInfo?.credential.id !== credential.id)
        throw new StrataError('auth_webauthn_verification_failed');
      const {
        credential: made,
        aaguid,
        credentialDeviceType,
        credentialBackedUp,
      } = result.registrationInfo;
      const row: PasskeyRow = {
        id: randomUUID(),
        user_id: caller.id,
        credential_id: made.id,
        public_key: Buffer.from(made.publicKey),
        counter: made.counter,
        name: name ?? null,
        aaguid,
        transports: made.transports ?? [],
        backup_eligible: credentialDeviceType === 'multiDevice',
        backed_up: credentialBackedUp,
        created_at: new Date(),
        last_used_at: null,
      };
      await db
        .transaction(async (manager) => {
          await manager.insert(PasskeyEntity, row);
          const payload = {
            passkey_id: row.id,
            name: row.name,
            aaguid,
            backup_eligible: row.backup_eligible,
          };
          await recordEvents(manager, [
            auditFacts(
              event('auth.passkey_registered', caller.id, caller.tenant_id, payload),
              request,
            ),
          ]);
        })
        .catch((error: unknown) => {
          throw isUniqueViolation(error)
            ? new StrataError('conflict', 'This passkey is registered already.')
            : error;
        });
      return shown(row);
    },

    async 'auth.webauthn.credentials.list'({ limit = defaultLimit, cursor }, { caller }) {
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(PasskeyEntity, {
        where: { user_id: caller.id, ...(after !== undefined && { id: MoreThan(after) }) },
        order: { id: 'ASC' },
        take: limit + 1,
      });
      return pageOf(rows, limit, ({ id }) => id, shown);
    },

    async 'auth.webauthn.credentials.remove'({ id }, request) {
      const { caller } = request;
      await db.transaction(async (manager) => {
        const { affected } = await manager.delete(PasskeyEntity, { id, user_id: caller.id });
        if (!affected) throw new StrataError('not_found', 'You have no such passkey.');
        await recordEvents(manager, [
          auditFacts(
            event('auth.passkey_removed', caller.id, caller.tenant_id, { passkey_id: id }),
            request,
          ),
        ]);
      });
      return null;
    },
  } satisfies Handlers;
}
