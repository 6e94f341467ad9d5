/**
 * The emergency stop: a bound that holds `automation_enabled` at false, whatever the layers say. It
 * is put and lifted through the review like every write, and leaves other bounds as they are.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useDraft } from '../drafts.ts';
import { useLive, useLoaded } from '../loading.ts';
import { isObject, type JsonObject } from '../../shared/schema/json-pointer.ts';
import { Waiting } from '../lists.tsx';
import { Button, Said, Time, Who } from '../inline.tsx';
import { ReviewAndPublish } from './review.tsx';
import { readStored } from './stored.ts';
import { Form } from '../fields.tsx';

const key = 'automation_enabled';

interface Stop {
  readonly reason: string | undefined;
  /** Only for these, where it does not say all. */
  readonly serviceTypes: readonly string[] | undefined;
}

/** A bound that only warns stops nothing. */
export function stopIn(bounds: JsonObject | null): Stop | undefined {
  const bound = bounds?.[key];
  if (!isObject(bound) || bound.const !== false || bound.mode === 'warn') return undefined;
  const { reason, service_types: types } = bound;
  return {
    reason: typeof reason === 'string' ? reason : undefined,
    serviceTypes: Array.isArray(types) ? types.map(String) : undefined,
  };
}

/** As a merge patch: a guardrail that is there may only warn, or hold for some service types. */
function patchTo(bounds: JsonObject | null, reason: string | undefined): JsonObject {
  if (reason === undefined) return { [key]: null };
  const before = bounds?.[key];
  const others = isObject(before) ? Object.keys(before).map((name) => [name, null]) : [];
  return { [key]: { ...Object.fromEntries(others), const: false, reason } };
}

export function EmergencyStop({
  address,
  whose,
  mayWrite,
  hasImpact = false,
  onChanged,
}: {
  /** Of the bounds. */
  readonly address: string;
  /** What stands still, such as "this tenant". */
  readonly whose: string;
  readonly mayWrite: boolean;
  readonly hasImpact?: boolean;
  readonly onChanged?: () => void;
}): VNode {
  const { data, problem, reload } = useLoaded(address, (aborted) => readStored(address, aborted));
  useLive(reload, ({ config_type: type }) => type === 'bounds_config');
  const [why = '', setWhy] = useDraft<string>(`stop ${address}`);
  const [reviewing, setReviewing] = useState<'stop' | 'lift'>();
  const stop = stopIn(data?.document ?? null);
  const isStopOfAll = stop !== undefined && stop.serviceTypes === undefined;
  const done = (): void => {
    setReviewing(undefined);
    setWhy(undefined);
    reload();
    onChanged?.();
  };
  const reason = why.trim();
  return (
    <section class={`stop ${stop ? 'on' : ''}`} aria-label="Emergency stop">
      <h2>Emergency stop</h2>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && stop && (
        <div>
          <p class="verdict">
            <span class="sign" aria-hidden="true"></span>
            <strong>
              Automation of {whose} is stopped
              {stop.serviceTypes && ` for ${stop.serviceTypes.join(', ')}`}.
            </strong>
          </p>
          <p>
            <Who id={data.updatedBy} name={data.updatedByName} /> wrote these guardrails last,{' '}
            <Time at={data.updatedAt} />.<Said>{stop.reason}</Said>
          </p>
          {mayWrite && (
            <p>
              <Button
                class="secondary"
                says="Lift the stop…"
                onClick={() => setReviewing('lift')}
              />
            </p>
          )}
        </div>
      )}
      {data && !isStopOfAll && (
        <div>
          <p>
            {!stop && 'No stop is in force. '}Stopping refuses every automation of {whose} from now
            on; those that run already are not ended.
          </p>
          {mayWrite && (
            <Form class="inline" onSend={() => setReviewing('stop')}>
              <input
                name="why"
                aria-label="Why automation is stopped"
                placeholder="Why: those who are refused read it"
                maxlength={500}
                value={why}
                required
                autocomplete="off"
                onInput={({ currentTarget }) => setWhy(currentTarget.value)}
              />
              <Button type="submit" class="danger" says="Stop automation…" />
            </Form>
          )}
        </div>
      )}
      {reviewing && data && (
        <ReviewAndPublish
          title={reviewing === 'stop' ? `Stop automation of ${whose}` : 'Lift the emergency stop'}
          address={address}
          method="PATCH"
          body={patchTo(data.document, reviewing === 'stop' ? reason : undefined)}
          revision={data.revision}
          isNew={data.document === null}
          hasImpact={hasImpact}
          {...(reviewing === 'stop' && { reason })}
          about={
            reviewing === 'stop' ? (
              <p>The guardrail decides over every layer, on every node, once this is answered.</p>
            ) : (
              <p>
                What the layers and other guardrails say of <code>{key}</code> holds again.
              </p>
            )
          }
          verb={reviewing === 'stop' ? 'Stop automation' : 'Lift the stop'}
          onClose={() => setReviewing(undefined)}
          onPublished={done}
        />
      )}
    </section>
  );
}
