/** Turns manifests into templates: a placeholder at each path, which the YAML then replaces. */
import { toYaml } from '../../src/cli/terminal/output.ts';

/** The template code at a path. `inline` replaces the value only. `lines` replaces the whole line, with its indentation. */
export type Filling =
  | { readonly kind: 'inline'; readonly text: string }
  | { readonly kind: 'lines'; readonly lines: (indent: number) => readonly string[] };

export type Path = readonly (string | number)[];

export interface Edit {
  readonly path: Path;
  readonly filling: Filling;
  /** `replace`: the base must have a value at the path. `add`: the base must not have a value there. */
  readonly how: 'replace' | 'add';
}

export const inline = (path: Path, text: string): Edit => ({
  path,
  how: 'replace',
  filling: { kind: 'inline', text },
});

export const lines = (path: Path, how: Edit['how'], of: (indent: number) => readonly string[]): Edit => ({
  path,
  how,
  filling: { kind: 'lines', lines: of },
});

/** The entry with the value; no entry if the value is empty. */
export const optional = (path: Path, how: Edit['how'], value: string): Edit =>
  lines(path, how, (indent) => [
    `{{- with .Values.${value} }}`,
    `${String(path.at(-1))}:`,
    `  {{- toYaml . | nindent ${indent + 2} }}`,
    '{{- end }}',
  ]);

const HOLE = /HOLE(\d+)HOLE/;

/** @throws Error when a path to replace is missing, or a path to add exists: the chart must follow the changed base */
export function toTemplate(object: object, edits: readonly Edit[]): string {
  const holed = edits.reduce<unknown>((value, { path, how }, n) => withHole(value, path, how, n), object);
  const text = toYaml(holed, { lineWidth: 0, aliasDuplicateObjects: false });
  return escaped(text)
    .split('\n')
    .flatMap((line) => {
      const number = HOLE.exec(line)?.[1];
      const filling = number === undefined ? undefined : edits[Number(number)]?.filling;
      return filling === undefined ? [line] : filled(line, filling);
    })
    .join('\n');
}

/** Escapes braces of the base, such as those in alerts, so that Helm prints them. */
const escaped = (text: string): string => text.replaceAll('{{', '{{ "{{" }}');

function filled(line: string, filling: Filling): readonly string[] {
  switch (filling.kind) {
    case 'inline':
      return [line.replace(HOLE, () => filling.text)];
    case 'lines': {
      if (/^\s*- \S+:/.test(line))
        throw new Error(`${line.trim()}: the first entry of an item can only be inline`);
      const indent = line.length - line.trimStart().length;
      return filling.lines(indent).map((one) => ' '.repeat(indent) + one);
    }
  }
}

function withHole(value: unknown, path: Path, how: Edit['how'], number: number): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return `HOLE${number}HOLE`;
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    if (typeof key !== 'number' || key > items.length) throw new Error(`there is no item ${key} to edit`);
    const item = rest.length === 0 ? checked(items[key], how, path) : items[key];
    return items.toSpliced(key, 1, withHole(item, rest, how, number));
  }
  if (typeof value !== 'object' || value === null) throw new Error(`there is no ${key} in ${String(value)}`);
  const below: unknown = Object.entries(value).find(([name]) => name === key)?.[1];
  if (rest.length === 0) checked(below, how, path);
  return { ...value, [key]: withHole(rest.length === 0 ? below : (below ?? {}), rest, how, number) };
}

function checked(value: unknown, how: Edit['how'], path: Path): unknown {
  if (how === 'replace' && value === undefined)
    throw new Error(`${path.join('.')}: missing in the base; change scripts/chart/`);
  if (how === 'add' && value !== undefined)
    throw new Error(`${path.join('.')}: now in the base; make it a default of the chart in scripts/chart/`);
  return value;
}
