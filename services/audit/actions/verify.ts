/**
 * Proof that nobody changed the record. It is made in chunks, so that the record may grow for
 * years: each request verifies some megabytes and answers where the next has to continue. The cursor
 * carries the hash up to which the chain holds, so that the chunks join: a link that is changed
 * after its chunk was verified is as good as changed after a proof in one chunk.
 */
import type { DataSource, EntityManager } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { decodeCursor, encodeCursor } from '../../../shared/documents/paging.ts';
import { invalid } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { tenantOfChain, type Position } from '../../../shared/security/audit-chain.ts';
import { visibleTenant } from '../rules/visible-tenant.ts';
import {
  chainNames,
  chainStart,
  verifyChain,
  type Extent,
  type VerifiedPart,
} from '../stores/chains.ts';
import { breakOfCut, readCut, type Cut } from '../stores/cuts.ts';
import { readErased } from '../stores/erased-chains.ts';
import { waitsOf } from '../stores/waiting-chains.ts';
import type { Verifications } from '../worker/verifications.ts';
import { VerificationShare } from '../worker/verification-share.ts';

/** What one request verifies: about a second of work, or less where its chain has to rest. */
const chunkBytes = 8 * 1024 * 1024;
const mostRestMs = 1000;
const chunkChains = 200;

/** How far all chains that the caller sees are verified. */
interface Progress {
  /** Whether no link was broken so far. */
  readonly isWhole: boolean;
  readonly chain: string;
  readonly position: Position;
}

/** The chains are walked in the order of their names, all of which follow the empty one. */
const beginningAt = (chain = ''): Progress => ({ isWhole: true, chain, position: chainStart });

const cursorOf = ({ isWhole, chain, position: { seq, hash } }: Progress): string =>
  encodeCursor([isWhole ? 'whole' : 'broken', chain, seq, hash].join(' '));

/** Throws 422 for a cursor of another chain than the tenant's. */
function progressIn(cursor: string | undefined, tenant: string | undefined): Progress {
  const key = decodeCursor(cursor, 'link');
  if (key === undefined) return beginningAt(tenant);
  const [state, chain = '', seq, hash = ''] = key.split(' ');
  if (tenant !== undefined && chain !== tenant)
    throw invalid([{ path: '/cursor', message: 'is of the proof of another chain' }]);
  return { isWhole: state === 'whole', chain, position: { seq: Number(seq), hash } };
}

/**
 * The hashes of an erased chain are compared with what the platform's chain tells of them, and the
 * statement of a cut is: what came after them is verified.
 */
async function verifyFrom(
  manager: EntityManager,
  name: string,
  from: Position,
  extent: Extent,
  settings: Settings,
): Promise<VerifiedPart> {
  const cut = await readCut(manager, name);
  const erased = await readErased(manager, name);
  const broken = (cut && (await breakOfCut(manager, cut, settings))) ?? erased?.broken;
  const begin = furthest(from, cut, erased?.position);
  const { chain: _chain, ...statement } = cut ?? {};
  const shown = {
    ...(cut ? { cut: statement as Omit<Cut, 'chain'> } : {}),
    ...(erased?.erased_at === undefined ? {} : { erased_at: erased.erased_at }),
  };
  if (broken) {
    const proof = { events: broken.seq - 1, head: null, ...shown, broken_at: broken };
    return { proof, bytes: 0 };
  }
  const part = await verifyChain(manager, name, begin, extent);
  return { ...part, proof: { ...part.proof, ...shown } };
}

const furthest = (
  from: Position,
  ...others: readonly (Position | null | undefined)[]
): Position => {
  const known = others.flatMap((each) => (each ? [{ seq: each.seq, hash: each.hash }] : []));
  return [from, ...known].reduce((one, other) => (other.seq > one.seq ? other : one));
};

async function verifyChunk(
  manager: EntityManager,
  from: Progress,
  tenant: string | undefined,
  share: VerificationShare,
  settings: Settings,
): Promise<Verified> {
  const names =
    tenant === undefined ? await chainNames(manager, from.chain, chunkChains + 1) : [tenant];
  const waits = await waitsOf(manager, names);
  const chains: Verified['chains'] = [];
  let { isWhole } = from;
  let next: Progress | null = null;
  let bytesLeft = chunkBytes;
  let restedMs = 0;
  const rest = async (chain: string, bytes: number): Promise<boolean> => {
    restedMs += await share.rest(chain, bytes);
    return restedMs < mostRestMs;
  };
  for (const name of names) {
    if (bytesLeft <= 0 || restedMs >= mostRestMs || chains.length === chunkChains) {
      next = { ...beginningAt(name), isWhole };
      break;
    }
    const asked = name === from.chain ? from.position : chainStart;
    const extent = { mostBytes: bytesLeft, rest };
    const { proof, rest: left, bytes } = await verifyFrom(manager, name, asked, extent, settings);
    const waitsAt = waits.get(name);
    chains.push({
      tenant_id: tenantOfChain(name),
      ...proof,
      ...(waitsAt !== undefined && { waits_at: waitsAt }),
    });
    bytesLeft -= bytes;
    isWhole &&= proof.broken_at === undefined;
    if (left) {
      next = { isWhole, chain: name, position: left };
      break;
    }
  }
  const proved = next === null ? true : null;
  return {
    valid: isWhole ? proved : false,
    chains,
    next_cursor: next === null ? null : cursorOf(next),
  };
}

export type Verified = ResultOf<'audit.verify'>;

/** All chains, for those who see them all: a name that no chain has. */
const everyChain = '';

export const verifyActions = (
  db: DataSource,
  settings: () => Settings,
  verifications: Verifications<Verified>,
) => {
  const share = new VerificationShare(chunkBytes);
  return {
    async 'audit.verify'({ tenant_id: asked, cursor }, { caller, until }) {
      const tenant = visibleTenant(caller, asked);
      const from = progressIn(cursor, tenant);
      // What is answered follows from these two alone, whoever asks.
      const turn = { chain: tenant ?? everyChain, chunk: cursorOf(from), until };
      return verifications.run(turn, () =>
        db.transaction('REPEATABLE READ', (manager) =>
          verifyChunk(manager, from, tenant, share, settings()),
        ),
      );
    },
  } satisfies Handlers;
};
