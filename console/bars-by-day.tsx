/**
 * Bars of days, as wide as the window lets them be. The table beside each says the same to
 * everybody.
 */
import type { VNode } from 'preact';
import { Empty } from './parts.tsx';

/** One kind of what a bar is stacked from. */
export interface Part {
  readonly title: string;
  /** A class of the stylesheet. */
  readonly look: 'spent' | 'held' | 'good' | 'bad';
}

interface DayBar {
  /** Such as 2026-01-31. */
  readonly date: string;
  /** One for each part, from below. */
  readonly values: readonly number[];
  /** What it says to whoever points at it, after the date. */
  readonly says: string;
}

const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
/** The date as people write it, wherever they are. */
export const dateText = (date: string): string => dateFormat.format(new Date(`${date}T00:00Z`));

const totalOf = ({ values }: DayBar): number => values.reduce((sum, value) => sum + value, 0);
const height = 100;

export function BarsByDay({
  label,
  unit,
  empty,
  parts,
  bars,
  chosen,
  onChoose,
}: {
  /** What the picture is of. */
  readonly label: string;
  readonly unit: string;
  /** Said where every bar is empty. */
  readonly empty: string;
  readonly parts: readonly Part[];
  readonly bars: readonly DayBar[];
  readonly chosen?: string | undefined;
  readonly onChoose?: (date: string) => void;
}): VNode {
  const most = Math.max(0, ...bars.map(totalOf));
  if (most === 0) return <Empty>{empty}</Empty>;
  return (
    <figure class={onChoose ? 'by-day chooses' : 'by-day'}>
      <figcaption class="fine">
        Up to <span class="number">{most.toLocaleString()}</span> {unit} on a day
        {parts.map(({ title, look }) => (
          <span key={look} class={`key-of ${look}`}>
            {title}
          </span>
        ))}
      </figcaption>
      <svg
        role="img"
        aria-label={`${label}; the table has its values`}
        viewBox={`0 0 ${bars.length * 10} ${height}`}
        preserveAspectRatio="none"
      >
        {bars.map((bar, index) => (
          <g
            key={bar.date}
            class={bar.date === chosen ? 'chosen' : ''}
            {...(onChoose && { onClick: () => onChoose(bar.date) })}
          >
            <title>{`${dateText(bar.date)}: ${bar.says}`}</title>
            <rect class="ground" x={index * 10} width="10" height={height} />
            {stacked(bar, most).map(({ y, share }, part) => (
              <rect
                key={part}
                class={parts[part]!.look}
                x={index * 10 + 1}
                width="8"
                y={y}
                height={share}
              />
            ))}
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

/** Each part on top of those before it. */
function stacked({ values }: DayBar, most: number): { y: number; share: number }[] {
  let top = height;
  return values.map((value) => {
    const share = (value / most) * height;
    top -= share;
    return { y: top, share };
  });
}
