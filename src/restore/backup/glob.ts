/** The globs of Velero (github.com/gobwas/glob 0.2.3). */
import { compareText } from '../../json/json.ts';

const TOKEN =
  /\[(?<not>!|(?!!))(?:(?<low>.)-(?<high>.)|(?!.-)(?<list>(?:\\.|[^\]\\])+))\]|\*\*|\\(?<escaped>.?)|./gsu;

export class InvalidGlob extends Error {
  constructor(glob: string, why: string) {
    super(`"${glob}" is not a glob: ${why}`);
  }
}

/** With a separator, only `**` and classes match it. @throws InvalidGlob */
export function compileGlob(pattern: string, separator = ''): RegExp {
  const one = separator === '' ? '.' : `[^${literal(separator)}]`;
  let open = 0;
  const source = [...pattern.matchAll(TOKEN)].map(({ 0: token, groups = {} }) => {
    if (token === '**') return '.*';
    if (token === '*') return `${one}*`;
    if (token === '?') return one;
    if (token === '[') throw new InvalidGlob(pattern, 'a class is written [abc], [a-z] or [!a]');
    if (token === '{') open += 1;
    if (token === '{') return '(?:';
    if (open > 0 && token === ',') return '|';
    if (open > 0 && token === '}') {
      open -= 1;
      return ')';
    }
    return groups.not === undefined ? literal(groups.escaped ?? token) : classOf(pattern, groups);
  });
  return new RegExp(`^(?:${source.join('')}${')'.repeat(open)})$`, 'su');
}

function classOf(pattern: string, { not = '', low, high = '', list = '' }: Partial<Record<string, string>>) {
  if (low !== undefined && low > high) throw new InvalidGlob(pattern, `${low} comes after ${high}`);
  const members =
    low === undefined ? literal(list.replaceAll(/\\(.)/gsu, '$1')) : `${literal(low)}-${literal(high)}`;
  return `[${not === '' ? '' : '^'}${members}]`;
}

const literal = (text: string): string =>
  Array.from(text, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`).join('');

/** Like Velero, tries the globs in the order of the alphabet, and none from the first invalid one on. */
function createGlobSet(globs: readonly string[]): (text: string) => boolean {
  const compiled: RegExp[] = [];
  try {
    for (const glob of globs.toSorted(compareText)) compiled.push(compileGlob(glob));
  } catch (error) {
    if (!(error instanceof InvalidGlob)) throw error;
  }
  return (text) => compiled.some((glob) => glob.test(text));
}

/** @param included none or `*`: all */
export function createIncludes(included: readonly string[] = [], excluded: readonly string[] = []) {
  const [only, not] = [createGlobSet(included), createGlobSet(excluded)];
  const isAll = included.length === 0 || included.includes('*');
  return {
    selectsAll: excluded.length === 0 && included.every((one) => one === '*'),
    selects: (name: string): boolean => !not(name) && (isAll || only(name)),
  };
}
