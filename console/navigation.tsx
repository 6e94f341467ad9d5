/** Where one can go: the screens in groups. */
import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { hrefOf } from './address.ts';
import { useWaiting } from './inbox.ts';
import { shownTitle } from './parts.tsx';
import { platformScreens, visibleScreens } from './screens.ts';
import { decides, isPlatformAdmin } from './session.ts';

/** What the address names: a screen of a tenant, or one of the platform. */
export interface ScreenAddress {
  readonly tenantId?: string;
  readonly isPlatform?: true;
  readonly name?: string;
  readonly rest: readonly string[];
}

export function Navigation({
  tenantId,
  place,
}: {
  readonly tenantId: string | undefined;
  readonly place: ScreenAddress;
}): VNode {
  const isAsked = tenantId !== undefined && decides();
  const waiting = useWaiting(isAsked ? tenantId : undefined);
  const ofPlatform = useWaiting(isPlatformAdmin.value ? '' : undefined);
  const links = [
    ...(tenantId === undefined ? [] : visibleScreens()).map(({ group, name, title }) => ({
      group,
      title,
      href: hrefOf(`/tenants/${tenantId}/${name}`),
      isCurrent: !place.isPlatform && name === place.name,
      count: name === 'approvals' ? waiting : 0,
    })),
    ...(isPlatformAdmin.value ? platformScreens : []).map(({ group, name, title }) => ({
      group,
      title,
      href: hrefOf(`/platform/${name}`),
      isCurrent: place.isPlatform === true && name === place.name,
      count: name === 'change-sets' ? ofPlatform : 0,
    })),
  ];
  const current = useRef<HTMLAnchorElement>(null);
  // On a narrow screen they are one bar, which may have it beside the screen.
  useEffect(() => {
    const link = current.current;
    const bar = link?.closest('nav > div');
    if (link && bar) bar.scrollLeft = link.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2;
  }, [place.name, place.isPlatform]);
  return (
    <nav class="side" aria-label="Screens">
      <div>
        {[...Map.groupBy(links, ({ group }) => group)].map(([group, own]) => (
          <section key={group}>
            <p class="group" aria-hidden="true">
              {group}
            </p>
            <ul aria-label={group}>
              {own.map(({ title, href, isCurrent, count }) => (
                <li key={href}>
                  <a
                    ref={isCurrent ? current : null}
                    href={href}
                    aria-current={isCurrent ? 'page' : undefined}
                  >
                    {title}
                    {count > 0 && <Count count={count} />}
                  </a>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </nav>
  );
}

const Count = ({ count }: { readonly count: number }): VNode => (
  <>
    {' '}
    <span class="waiting number">
      {count}
      <span class="unseen"> waiting for you</span>
    </span>
  </>
);

/** The way back from one of several to all of them. */
export function Breadcrumbs({ place }: { readonly place: ScreenAddress }): VNode | null {
  const { tenantId, isPlatform, name, rest } = place;
  const offered = isPlatform ? platformScreens : visibleScreens();
  const screen = offered.find((each) => each.name === name);
  if (!screen || rest.length === 0) return null;
  const above = isPlatform ? '/platform' : `/tenants/${tenantId}`;
  return (
    <nav class="crumbs" aria-label="Breadcrumbs">
      <ol>
        {screen.group !== screen.title && <li>{screen.group}</li>}
        <li>
          <a href={hrefOf(`${above}/${screen.name}`)}>{screen.title}</a>
        </li>
        <li aria-current="page">
          <bdi>{shownTitle.value}</bdi>
        </li>
      </ol>
    </nav>
  );
}
