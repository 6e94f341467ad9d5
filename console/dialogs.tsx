/** Dialogs that several screens ask and answer with. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useAction } from './action.ts';
import { Button } from './inline.tsx';
import { Dialog, ProblemBox } from './parts.tsx';

/** A form over the page, which is done when `work` is. */
export function FormDialog({
  title,
  verb,
  isDangerous = false,
  isReady = true,
  children,
  work,
  onClose,
}: {
  readonly title: string;
  readonly verb: string;
  readonly isDangerous?: boolean;
  /** Whether it can be sent as it is. */
  readonly isReady?: boolean;
  readonly children?: ComponentChildren;
  /** Closes the dialog itself, or shows something else in its place. */
  readonly work: () => Promise<unknown>;
  readonly onClose: () => void;
}): VNode {
  const { isBusy, problem, run } = useAction();
  const form = useRef<HTMLFormElement>(null);
  // What is to be typed first has the focus, where there is something.
  useLayoutEffect(
    () => form.current?.querySelector<HTMLElement>('input, select, textarea')?.focus(),
    [],
  );
  const submit = (event: Event): void => {
    event.preventDefault();
    void run(work);
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form ref={form} onSubmit={submit}>
        {children}
        <ProblemBox problem={problem} />
        <footer>
          <Button class="secondary" says="Cancel" onClick={onClose} />
          <Button
            type="submit"
            class={isDangerous ? 'danger' : ''}
            says={verb}
            isBusy={isBusy}
            disabled={!isReady}
          />
        </footer>
      </form>
    </Dialog>
  );
}

/** A secret that Strata shows this once: it stays until somebody says that they have it. */
export function ShownOnce({
  title,
  secret,
  onClose,
}: {
  readonly title: string;
  readonly secret: string;
  readonly onClose: () => void;
}): VNode {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    const ask = (event: Event): void => event.preventDefault();
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, []);
  const copy = (): void => {
    navigator.clipboard.writeText(secret).then(
      () => setCopied(true),
      // The text can be selected by hand where the browser does not let a page write.
      () => undefined,
    );
  };
  return (
    <Dialog title={title}>
      <div class="notice">
        <p>
          This is shown <strong>once</strong>. Strata keeps only a hash of it, and no one can read
          it again.
        </p>
      </div>
      <pre class="secret" tabindex={0} aria-label="Secret">
        <code>{secret}</code>
      </pre>
      <footer>
        <span class="fine grow" role="status">
          {isCopied && 'Copied.'}
        </span>
        <Button class="secondary" says="Copy" onClick={copy} />
        <Button says="I have it" onClick={onClose} />
      </footer>
    </Dialog>
  );
}

export interface Choice {
  readonly name: string;
  /** As it is shown; the name by default. */
  readonly title?: string;
  readonly says?: string;
  /** It is not for whoever chooses to take away. */
  readonly isFixed?: boolean;
}

/** Several of a few, such as roles. */
export function Choices({
  label,
  options,
  chosen,
  onChange,
}: {
  readonly label: string;
  readonly options: readonly Choice[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: string[]) => void;
}): VNode {
  const toggle = (name: string): void =>
    onChange(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]);
  return (
    <fieldset class="some">
      <legend>{label}</legend>
      {options.map(({ name, title = name, says, isFixed = false }) => (
        <label class="check" key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            disabled={isFixed}
            onChange={() => toggle(name)}
          />
          <span>
            <bdi>{title}</bdi>
            {says !== undefined && <small>{says}</small>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}
