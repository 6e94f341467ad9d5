/** What stands within a line: names and values that somebody wrote, times, states, buttons. */
import type { ComponentProps, VNode } from 'preact';
import { hrefOf } from './address.ts';
import { localTime, shortJson, timeAgo } from './format.ts';
import { nameOf } from './people.ts';

/** A button, which sends no form unless its type says so, nor is chosen again while it is busy. */
export const Button = ({
  says,
  isBusy,
  disabled = false,
  ...attributes
}: ComponentProps<'button'> & {
  readonly says: string;
  readonly isBusy?: boolean;
  readonly disabled?: boolean | undefined;
}): VNode => (
  <button type="button" aria-busy={isBusy} disabled={disabled || isBusy} {...attributes}>
    {says}
  </button>
);

interface WrittenProperties {
  readonly children: string | null | undefined;
}

/** A name or value that somebody wrote, which does not turn the text around it. */
export const Code = ({ children }: WrittenProperties): VNode => (
  <code>
    <bdi>{children}</bdi>
  </code>
);

export const Strong = ({ children }: WrittenProperties): VNode => (
  <strong>
    <bdi>{children}</bdi>
  </strong>
);

/** What somebody said about it; nothing where they said nothing. */
export const Said = ({ children }: WrittenProperties): VNode | null =>
  children ? (
    <q class="said">
      <bdi>{children}</bdi>
    </q>
  ) : null;

/** What stands below a name, smaller; nothing where there is nothing. */
export const Below = ({ children }: WrittenProperties): VNode | null =>
  children ? (
    <div class="fine">
      <bdi>{children}</bdi>
    </div>
  ) : null;

/** A name that leads to an address inside of the console. */
export const Link = ({ to, children }: WrittenProperties & { readonly to: string }): VNode => (
  <a href={hrefOf(to)}>
    <bdi>{children}</bdi>
  </a>
);

/** What something is called, where that leads, and what is said below it. */
export const Named = ({
  to,
  below,
  children,
}: WrittenProperties & {
  readonly to?: string;
  readonly below?: string | null | undefined;
}): VNode => (
  <>
    {to === undefined ? <bdi>{children}</bdi> : <Link to={to}>{children}</Link>}
    <Below>{below}</Below>
  </>
);

/** How long ago, with the local time and UTC for whoever wants to know exactly. */
export const Time = ({
  at,
  none = '–',
}: {
  readonly at: string | null | undefined;
  /** Said where there is no time. */
  readonly none?: string;
}): VNode =>
  at === null || at === undefined ? (
    <span class="muted">{none}</span>
  ) : (
    // Of another moment it is another element, since its text is renewed while it stands.
    <time key={at} class="ago" datetime={at} title={`${localTime(at)} · ${at}`} aria-live="off">
      {timeAgo(at)}
    </time>
  );

const renewMs = 30_000;

/**
 * From now on, for the whole page: what stays open for an hour says so. Drawing every row again for
 * it would take long of a thousand, and what is read to somebody is not read again.
 */
export function renewTimes(): void {
  const renew = (): void => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll<HTMLTimeElement>('time.ago')) {
      const text = timeAgo(time.dateTime);
      if (time.firstChild instanceof Text && time.firstChild.data !== text)
        time.firstChild.data = text;
    }
  };
  setInterval(renew, renewMs);
  document.addEventListener('visibilitychange', renew);
}

/** The same, smaller, beside what it is the time of. */
export const FineTime = ({ at }: { readonly at: string | null | undefined }): VNode => (
  <span class="fine">
    <Time at={at} />
  </span>
);

/** When what holds for a while ends, or ended, where it does not hold still. */
export function Ends({
  at,
  isInForce = false,
}: {
  readonly at: string;
  readonly isInForce?: boolean;
}): VNode {
  const past = isInForce ? 'should have ended' : 'ended';
  return (
    <span class="fine">
      {Date.parse(at) > Date.now() ? 'ends' : past} <Time at={at} />
    </span>
  );
}

/** What people call a state of the API. */
export const stateTitle = (state: string): string =>
  state === 'exhausted' ? 'no one decided' : state;

export const State = ({
  state,
  says = stateTitle(state),
}: {
  readonly state: string;
  readonly says?: string;
}): VNode => <span class={`state-of ${state}`}>{says}</span>;

/** Of what the screen is about: a change is read to whoever does not see it. */
export const StateNow = ({ state }: { readonly state: string | undefined }): VNode => (
  <span role="status">{state !== undefined && <State state={state} />}</span>
);

export const Risk = ({ level }: { readonly level: string }): VNode => (
  <span class={`risk ${level}`}>{level}</span>
);

/** Whoever has the id: by the name that came with it, else by the one that is known here. */
export const Who = ({
  id,
  name,
}: {
  readonly id: string | null | undefined;
  readonly name?: string | undefined;
}): VNode => <bdi title={id ?? ''}>{name ?? nameOf(id)}</bdi>;

/** A value as JSON, on one line. What somebody wrote does not turn the line around it. */
export function Value({
  value,
  longest,
}: {
  readonly value: unknown;
  readonly longest?: number;
}): VNode {
  if (value === undefined) return <span class="muted">absent</span>;
  const text = shortJson(value, longest);
  return (
    <code
      class={`value ${typeof value}`}
      title={text.endsWith('…') ? shortJson(value, 2000) : undefined}
    >
      <bdi>{text}</bdi>
    </code>
  );
}

/** A description of a schema, where names stand in backticks. */
export const Described = ({ text }: { readonly text: string }): VNode => (
  <>
    {text
      .split('`')
      .map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}
  </>
);
