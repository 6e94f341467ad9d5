/** Where one can go: the screens in groups. */
import type { VNode } from 'preact';
import { hrefOf } from './address.ts';
import { platformScreens, visibleScreens } from './screens.ts';
import { isPlatformAdmin } from './session.ts';

/** What the address names: a screen of a tenant, or one of the platform. */
export interface Place {
  readonly tenantId?: string;
  readonly isPlatform?: true;
  readonly name?: string;
  readonly rest: readonly string[];
}

interface Link {
  readonly title: string;
  readonly href: string;
  readonly isCurrent: boolean;
}

export function Navigation({
  tenantId,
  place,
}: {
  readonly tenantId: string | undefined;
  readonly place: Place;
}): VNode {
  const groups = new Map<string, Link[]>();
  const add = (group: string, link: Link): void => {
    groups.set(group, [...(groups.get(group) ?? []), link]);
  };
  for (const { group, name, title } of tenantId === undefined ? [] : visibleScreens())
    add(group, {
      title,
      href: hrefOf(`/tenants/${tenantId}/${name}`),
      isCurrent: !place.isPlatform && name === place.name,
    });
  for (const { name, title } of isPlatformAdmin.value ? platformScreens : [])
    add('Platform', {
      title,
      href: hrefOf(`/platform/${name}`),
      isCurrent: place.isPlatform === true && name === place.name,
    });
  return (
    <nav class="side" aria-label="Screens">
      <div>
        {[...groups].map(([group, links]) => (
          <section key={group}>
            <p class="group" aria-hidden="true">
              {group}
            </p>
            <ul aria-label={group}>
              {links.map(({ title, href, isCurrent }) => (
                <li key={href}>
                  <a href={href} aria-current={isCurrent ? 'page' : undefined}>
                    {title}
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
