/** A chart of stacked bars, one for each day; a table says the same to everybody. */
import type { VNode } from 'preact';
import { setQuery } from '../address.ts';

const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
/** The date as people write it, wherever they are. */
export const dateText = (date: string): string => dateFormat.format(new Date(`${date}T00:00Z`));

export interface Bar {
  /** As `2026-11-25`, by which the address says which is chosen. */
  readonly date: string;
  /** What the pointer is shown. */
  readonly title: string;
  /** From the ground up, each by its class of `limits.css`. */
  readonly parts: readonly { readonly look: BarLook; readonly value: number }[];
}
export type BarLook = 'spent' | 'held' | 'allowed' | 'asked' | 'denied';

export const heightOf = ({ parts }: Bar): number =>
  parts.reduce((sum, { value }) => sum + value, 0);

const height = 100;

/** Bars as wide as the window lets them be. */
export function Bars({
  label,
  unit,
  bars,
  chosen,
}: {
  readonly label: string;
  /** What the highest bar is said to have. */
  readonly unit: string;
  readonly bars: readonly Bar[];
  readonly chosen: string | undefined;
}): VNode {
  const most = Math.max(...bars.map(heightOf));
  return (
    <figure class="by-day">
      <figcaption class="fine">
        Up to <span class="number">{most.toLocaleString()}</span> {unit} on a day
      </figcaption>
      <svg
        role="img"
        aria-label={label}
        viewBox={`0 0 ${bars.length * 10} ${height}`}
        preserveAspectRatio="none"
      >
        {bars.map((bar, index) => (
          <g
            key={bar.date}
            class={bar.date === chosen ? 'chosen' : ''}
            onClick={() => setQuery({ day: bar.date, cursor: '' })}
          >
            <title>{bar.title}</title>
            <rect class="ground" x={index * 10} width="10" height={height} />
            <Parts bar={bar} x={index * 10 + 1} scale={height / most} />
          </g>
        ))}
      </svg>
      <div class="ends fine" aria-hidden="true">
        <span>{dateText(bars[0]!.date)}</span>
        <span>{dateText(bars.at(-1)!.date)}</span>
      </div>
    </figure>
  );
}

function Parts({
  bar,
  x,
  scale,
}: {
  readonly bar: Bar;
  readonly x: number;
  readonly scale: number;
}): VNode {
  let top = height;
  const rects = bar.parts.map(({ look, value }) => {
    const part = value * scale;
    top -= part;
    return <rect key={look} class={look} x={x} width="8" y={top} height={part} />;
  });
  return <>{rects}</>;
}
