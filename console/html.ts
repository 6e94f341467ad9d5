/**
 * How screens are written: templates for markup, and components with their properties checked by
 * the compiler.
 */
import htm from 'htm';
import { h, type ComponentType, type VNode } from 'preact';

/** One element. What is put in becomes text or attributes, never markup. */
export const html = htm.bind(h) as (
  strings: TemplateStringsArray,
  ...values: readonly unknown[]
) => VNode;

/** A component with its properties, which a template would not check. */
export const view = <P extends object>(
  component: ComponentType<P>,
  properties: P & { readonly key?: string | number },
): VNode => h(component, properties) as VNode;
