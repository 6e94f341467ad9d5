/** The documents of a tenant: those that there is one of, and lists of the others. */
import type { VNode } from 'preact';
import { hrefOf } from '../address.ts';
import { FilterField, Filters } from '../fields.tsx';
import { Columns, Empty, Heading } from '../parts.tsx';
import { DocumentEditor } from './document-editor.tsx';
import { documentKinds, kindNamed, screenOf } from './document-kinds.ts';
import { KindList } from './kind-list.tsx';
import type { ScreenProperties } from './screen.ts';

export function Documents({ rest: [name, id] }: ScreenProperties): VNode {
  const kind = kindNamed(name);
  if (name === undefined) return <Overview />;
  if (!kind || (kind.plural !== undefined && !id))
    return (
      <section>
        <Heading title="Configuration" />
        <Empty>There is no such document.</Empty>
      </section>
    );
  return <DocumentEditor key={`${name}/${id ?? ''}`} kind={kind} id={id ?? ''} />;
}

function Overview(): VNode {
  const single = documentKinds.filter(({ plural }) => plural === undefined);
  const several = documentKinds.filter(({ plural }) => plural !== undefined);
  return (
    <section>
      <Heading title="Configuration" />
      <table class="documents">
        <Columns titles={['Document', 'What it says']} />
        <tbody>
          {single.map((kind) => (
            <tr key={kind.name}>
              <th scope="row">
                <a href={hrefOf(screenOf(kind, ''))}>{kind.title}</a>
              </th>
              <td class="muted">{kind.about}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Filters class="filter">
        <FilterField placeholder="name" />
      </Filters>
      {several.map((kind) => (
        <KindList key={kind.name} kind={kind} />
      ))}
    </section>
  );
}
