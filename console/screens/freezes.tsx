/** When automation may not act: a month of it, each freeze with its windows, and its overrides. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Freeze } from '../../shared/contracts/freezes.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant } from '../address.ts';
import { get } from '../api.ts';
import { RowButton, Waiting } from '../lists.tsx';
import { useLive, useLoaded } from '../loading.ts';
import { Button, Code, Said, Time } from '../inline.tsx';
import { Empty, Heading } from '../parts.tsx';
import { addressOf, kindNamed, mayWrite, type DocumentKind } from './document-kinds.ts';
import { FreezeCalendar, type ShownFreeze } from './freeze-calendar.tsx';
import { CalendarImport, firstFreeze, FreezeOverride, windowFields } from './freeze-forms.tsx';
import { windowText } from './freeze-windows.ts';
import { LimitEditor, ReviewMember } from './limit-editor.tsx';
import { platformFreezes } from './platform-kinds.ts';
import { readStored, type Stored } from './stored.ts';

const tenantKind = kindNamed('freezes')!;

/** Those of the platform that hold wherever automation acts; those for one place show there. */
async function ofPlatform(aborted: AbortSignal): Promise<ShownFreeze[]> {
  const address = ofTenant('/config/effective?explain=true');
  const { over_time: limits } = await get<ResultOf<'config-resolver.resolve'>>(address, aborted);
  return (limits?.freezes ?? []).filter(({ by }) => by === 'platform');
}

export function Freezes(): VNode {
  return <FreezesOf kind={tenantKind} address={addressOf(tenantKind.path)} others={ofPlatform} />;
}

export const PlatformFreezes = (): VNode => (
  <FreezesOf kind={platformFreezes} address={platformFreezes.path} others={async () => []} />
);

/** What is done to one freeze, or to a new one. */
interface Doing {
  readonly what: 'edit' | 'import' | 'override' | 'remove' | 'end';
  readonly name?: string;
  /** Of the override that is ended. */
  readonly override?: string;
}

function FreezesOf({
  kind,
  address,
  others,
}: {
  readonly kind: DocumentKind;
  readonly address: string;
  readonly others: (aborted: AbortSignal) => Promise<readonly ShownFreeze[]>;
}): VNode {
  const { data, problem, reload } = useLoaded(address, async (aborted) => {
    const [stored, platform] = await Promise.all([readStored(address, aborted), others(aborted)]);
    // The API's own document, whose schema the write was checked by.
    const own = Object.entries((stored.document ?? {}) as Readonly<Record<string, Freeze>>);
    const by = kind.isPlatform ? 'platform' : 'tenant';
    const freezes = [...platform, ...own.map(([name, rule]) => ({ by, name, rule }) as const)];
    return { stored, freezes };
  });
  useLive(reload, ({ config_type: type }) => type === kind.configType);
  const [doing, setDoing] = useState<Doing>();
  const isWritable = mayWrite(kind) && data !== undefined;
  const own = (by: ShownFreeze['by']): boolean =>
    isWritable && (by === 'platform') === (kind.isPlatform ?? false);
  return (
    <section>
      <Heading title={kind.title} about={kind.about}>
        <span class="grow"></span>
        {isWritable && (
          <>
            <Button class="small" says="New freeze…" onClick={() => setDoing({ what: 'edit' })} />
            <Button
              class="small"
              says="Import a calendar…"
              onClick={() => setDoing({ what: 'import' })}
            />
          </>
        )}
      </Heading>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && <FreezeCalendar freezes={data.freezes} />}
      {data?.freezes.length === 0 && (
        <Empty>There is no freeze: automation acts at any time that its other limits allow.</Empty>
      )}
      <div class="panels freezes">
        {data?.freezes.map((each) => (
          <FreezePanel
            key={`${each.by}/${each.name}`}
            freeze={each}
            isPlatform={kind.isPlatform ?? false}
            {...(own(each.by) && { act: (done: Doing) => setDoing(done) })}
          />
        ))}
      </div>
      {doing && data && (
        <Doings
          kind={kind}
          address={address}
          stored={data.stored}
          doing={doing}
          onClose={() => setDoing(undefined)}
          onPublished={() => {
            setDoing(undefined);
            reload();
          }}
        />
      )}
    </section>
  );
}

function Doings({
  doing: { what, name, override },
  ...properties
}: {
  readonly kind: DocumentKind;
  readonly address: string;
  readonly stored: Stored;
  readonly doing: Doing;
  readonly onClose: () => void;
  readonly onPublished: () => void;
}): VNode | null {
  switch (what) {
    case 'edit':
      return (
        <LimitEditor
          {...properties}
          name={name}
          first={firstFreeze()}
          own={windowFields}
          without={['during', 'overrides']}
        />
      );
    case 'import':
      return <CalendarImport {...properties} name={name} />;
    case 'override':
      return <FreezeOverride {...properties} name={name!} />;
    case 'remove':
      return (
        <ReviewMember
          {...properties}
          title={`Remove the freeze ${name!}`}
          name={name!}
          patch={null}
          verb="Remove"
        />
      );
    case 'end':
      return (
        <ReviewMember
          {...properties}
          title={`End the override ${override!}`}
          name={name!}
          patch={{ overrides: { [override!]: null } }}
          about={<p>The freeze {name} holds again from now on.</p>}
          verb="End the override"
        />
      );
  }
}

/** More are for its form to show. */
const mostWindows = 8;

function FreezePanel({
  freeze: { by, name, rule },
  isPlatform,
  act,
}: {
  readonly freeze: ShownFreeze;
  readonly isPlatform: boolean;
  readonly act?: (doing: Doing) => void;
}): VNode {
  const { during, only_within: isOnly, allow, overrides = {}, mode, match, reason } = rule;
  const passing = [
    ...(allow?.rollbacks ? ['rollbacks that are proven'] : []),
    ...(allow?.risk_levels ? [`risk ${allow.risk_levels.join(', ')}`] : []),
  ];
  return (
    <section aria-label={`Freeze ${name} of the ${by}`}>
      <div class="heading">
        <h2>
          <bdi>{name}</bdi>
        </h2>
        {by === 'platform' && !isPlatform && <span class="tag">of the platform</span>}
        {mode === 'warn' && <span class="tag">only warns</span>}
      </div>
      <p>{isOnly ? 'Automation acts only in these times:' : 'Automation does not act:'}</p>
      <ul>
        {during.slice(0, mostWindows).map((window, index) => (
          <li key={index}>{windowText(window)}</li>
        ))}
        {during.length > mostWindows && <li>and {during.length - mostWindows} more</li>}
      </ul>
      <p class="fine">
        {match ? 'Only some automations' : 'All automations'}
        {passing.length > 0 && ` · passes: ${passing.join('; ')}`}
        <Said>{reason}</Said>
      </p>
      <Overrides name={name} overrides={overrides} {...(act && { act })} />
      {act && (
        <p class="acts">
          <RowButton says="Edit…" of={name} onClick={() => act({ what: 'edit', name })} />
          <RowButton
            says="Import…"
            of={`a calendar into ${name}`}
            onClick={() => act({ what: 'import', name })}
          />
          <RowButton says="Override…" of={name} onClick={() => act({ what: 'override', name })} />
          <RowButton
            isDangerous
            says="Remove…"
            of={name}
            onClick={() => act({ what: 'remove', name })}
          />
        </p>
      )}
    </section>
  );
}

/** Those that are not over. */
function Overrides({
  name,
  overrides,
  act,
}: {
  readonly name: string;
  readonly overrides: NonNullable<Freeze['overrides']>;
  readonly act?: (doing: Doing) => void;
}): VNode | null {
  const current = Object.entries(overrides).filter(
    ([, { until }]) => Date.parse(until) > Date.now(),
  );
  if (current.length === 0) return null;
  return (
    <ul class="overrides" aria-label={`Overrides of ${name}`}>
      {current.map(([override, { from, until, match, reason }]) => (
        <li key={override}>
          <strong>Overridden</strong>
          {match && ' for some automations'}
          {from !== undefined && (
            <>
              {' '}
              from <Time at={from} />
            </>
          )}{' '}
          until <Time at={until} /> by <Code>{override}</Code>
          <Said>{reason}</Said>
          {act && (
            <RowButton
              says="End…"
              of={`the override ${override} of ${name}`}
              onClick={() => act({ what: 'end', name, override })}
            />
          )}
        </li>
      ))}
    </ul>
  );
}
