/** Figures in a row, each of which leads to what it counts. */
import type { ComponentChildren, VNode } from 'preact';
import { hrefOf } from './address.ts';

export const Tiles = ({ children }: { readonly children?: ComponentChildren }): VNode => (
  <ul class="tiles" aria-label="At a glance">
    {children}
  </ul>
);

export const Tile = ({
  title,
  href,
  count,
  says,
  look = '',
}: {
  readonly title: string;
  /** Inside of the console. */
  readonly href: string;
  /** Undefined until it is known. */
  readonly count: number | undefined;
  readonly says?: string | undefined;
  readonly look?: 'warn' | 'bad' | '';
}): VNode => (
  <li class={look}>
    <a href={hrefOf(href)}>
      <span class="title">{title}</span>
      <strong class="number">{count?.toLocaleString() ?? '–'}</strong>
      <span class="fine">
        <bdi>{says}</bdi>
      </span>
    </a>
  </li>
);
