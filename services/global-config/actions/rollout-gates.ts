/**
 * Asks the gates of a rollout's stage. Each has its time to answer, and none that fails to answer
 * keeps another from it: `../rules/rollout-gates.ts` says what answers mean.
 */
import { randomUUID } from 'node:crypto';
import { lookup } from 'node:dns';
import { Type } from 'typebox';
import type { Logger } from 'pino';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { within } from '../../../shared/concurrency/within.ts';
import {
  RolloutGate,
  type CountsGate,
  type GateAnswer,
  type PrometheusGate,
  type WebhookGate,
} from '../../../shared/contracts/rollout-gates.ts';
import type { StoredRollout } from '../../../shared/contracts/rollouts.ts';
import { invalid } from '../../../shared/errors.ts';
import { createGuard, type Guard } from '../../../shared/outgoing/guard.ts';
import { createHttpClient, type HttpClient } from '../../../shared/outgoing/http-client.ts';
import { OutgoingError } from '../../../shared/outgoing/outgoing-error.ts';
import { signatureHeaders } from '../../../shared/outgoing/signature.ts';
import { cohortOf } from '../../../shared/rollouts/side.ts';
import { openSecrets, sealSecrets } from '../../../shared/security/document-secrets.ts';
import { createVault } from '../../../shared/security/vault.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import {
  lineOf,
  verdictOfCounts,
  verdictOfPrometheus,
  verdictOfWebhook,
  wait,
  type Verdict,
} from '../rules/rollout-gates.ts';

type Stages = StoredRollout['stages'];
const timeoutMs = 10_000;
const Gates = Type.Array(Type.Object({ gate: Type.Array(RolloutGate) }));

/** The address is the operator's own, so it may be of any network. */
const ofOperator: Pick<Guard, 'parse' | 'lookup'> = {
  parse: (url) => new URL(url),
  lookup,
};

export class RolloutGates {
  readonly #settings: () => Settings;
  readonly #guard: Guard;
  readonly #http: HttpClient;
  readonly #toPrometheus: HttpClient;
  readonly #log: Logger;

  constructor(settings: () => Settings, log: Logger) {
    this.#settings = settings;
    this.#log = log;
    this.#guard = createGuard(settings);
    this.#http = createHttpClient(this.#guard, settings);
    this.#toPrometheus = createHttpClient(ofOperator, settings);
  }

  /** The stages as they are stored. Throws 422 for addresses that nothing may be sent to. */
  async sealed(rolloutId: string, stages: Stages): Promise<Stages> {
    const problems = await Promise.all(
      stages.flatMap(({ gate: gates }, stage) =>
        gates.map(async (gate, index) => {
          const message = await this.#objection(gate);
          return message === undefined ? [] : [{ path: `/stages/${stage}/gate/${index}`, message }];
        }),
      ),
    );
    if (problems.flat().length > 0) throw invalid(problems.flat());
    return sealSecrets(stages, Gates, this.#vault(), rolloutId, null);
  }

  async #objection(gate: RolloutGate): Promise<string | undefined> {
    if (gate.type === 'prometheus' && this.#settings().prometheus_url === null)
      return 'needs PROMETHEUS_URL, which the operator has not set';
    if (gate.type !== 'webhook') return undefined;
    try {
      await this.#guard.checkUrl(gate.url);
      return undefined;
    } catch (error) {
      if (!(error instanceof OutgoingError)) throw error;
      return `the address ${error.message}`;
    }
  }

  readonly #vault = () => createVault(this.#settings(), 'rollout gate');

  /** What each gate of its stage answers now. Never rejects. */
  ask(rollout: StoredRollout, at: Date, request: Request): Promise<GateAnswer[]> {
    const stage = rollout.stage!;
    return Promise.all(
      rollout.stages[stage]!.gate.map(async (gate, index): Promise<GateAnswer> => {
        const verdict = await within(timeoutMs + 1000, this.#verdict(rollout, gate, request)).catch(
          (error: unknown) => {
            const isKnown = error instanceof OutgoingError;
            if (!isKnown) this.#log.warn({ err: error, rollout_id: rollout.id }, 'a gate failed');
            return wait(isKnown ? lineOf(error.message) : 'It could not be asked');
          },
        );
        const now = at.toISOString();
        return { stage, gate: index, ...verdict, since: now, at: now };
      }),
    );
  }

  async #verdict(rollout: StoredRollout, gate: RolloutGate, request: Request): Promise<Verdict> {
    switch (gate.type) {
      case 'manual':
        return wait('Somebody advances it');
      case 'figures':
        return this.#counts(rollout, gate, request);
      case 'webhook':
        return this.#webhook(rollout, gate);
      case 'prometheus':
        return this.#prometheus(gate);
    }
  }

  async #counts(rollout: StoredRollout, gate: CountsGate, request: Request): Promise<Verdict> {
    const { figure, rule } = gate;
    const sides = { ...cohortOf(rollout, rollout.stage!), since: rollout.stage_at! };
    const counted =
      figure === 'refused'
        ? await request.call('tenant-config.writes.figures', sides)
        : await request.call('notifier.automations.figures', {
            ...sides,
            figure,
            ...(rule !== undefined && { rule }),
          });
    return verdictOfCounts(gate, counted);
  }

  async #webhook(rollout: StoredRollout, gate: WebhookGate): Promise<Verdict> {
    const { id, title, stage, stage_at: began, stages } = rollout;
    const [{ gate: gates }] = openSecrets([{ gate: [gate] }], Gates, this.#vault(), id) as [
      Stages[number],
    ];
    const { url, secret } = gates[0] as WebhookGate;
    const body = JSON.stringify({
      type: 'rollout.gate',
      rollout: { id, title, stage, stage_began_at: began, stages: stages.length },
    });
    const answer = await this.#http.send({
      url,
      method: 'POST',
      body,
      timeoutMs,
      headers: {
        'content-type': 'application/json',
        ...signatureHeaders({ id: randomUUID(), body, secrets: [secret] }),
      },
    });
    if (answer.cut !== null) return wait('Its answer did not come whole');
    return verdictOfWebhook(answer.status, answer.body.toString('utf8'), secret);
  }

  async #prometheus(gate: PrometheusGate): Promise<Verdict> {
    const base = this.#settings().prometheus_url;
    if (base === null) return wait('PROMETHEUS_URL is not set any more');
    const answer = await this.#toPrometheus.send({
      url: `${base}/api/v1/query`,
      method: 'POST',
      body: new URLSearchParams({ query: gate.query, timeout: `${timeoutMs / 1000}s` }).toString(),
      timeoutMs,
      maxResponseBytes: 64 * 1024,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    if (answer.cut !== null) return wait('The answer of Prometheus did not come whole');
    return verdictOfPrometheus(gate, answer.status, answer.body.toString('utf8'));
  }
}
