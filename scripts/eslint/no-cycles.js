// @ts-check
/** ESLint rule: no chain of imports leads back to the file it starts from, type imports included. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';

const IMPORT = /^\s*(?:import|export)\s[^;]*?from\s+'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm;

/** @param {string} file @param {string} text @returns {readonly string[]} */
const importsOf = (file, text) =>
  [...text.matchAll(IMPORT)].map(([, from, dynamic]) => resolve(dirname(file), from ?? dynamic ?? ''));

/** @type {Map<string, readonly string[]>} */
const graph = new Map();

/** @param {string} file */
function imported(file) {
  const known = graph.get(file);
  if (known !== undefined) return known;
  const found = existsSync(file) ? importsOf(file, readFileSync(file, 'utf8')) : [];
  graph.set(file, found);
  return found;
}

/**
 * The shortest way from `start` to `goal`, both included.
 * @param {string} start @param {string} goal @returns {readonly string[] | undefined}
 */
function wayTo(start, goal) {
  /** @type {Map<string, string | undefined>} */
  const cameFrom = new Map([[start, undefined]]);
  for (const file of cameFrom.keys()) {
    if (file === goal) {
      const way = [];
      for (let step = /** @type {string | undefined} */ (file); step !== undefined; step = cameFrom.get(step))
        way.unshift(step);
      return way;
    }
    for (const next of imported(file)) if (!cameFrom.has(next)) cameFrom.set(next, file);
  }
  return undefined;
}

/** @type {import('eslint').Rule.RuleModule} */
export const noCycles = {
  meta: { type: 'problem', schema: [], messages: { cycle: 'Import cycle: {{way}}' } },
  create(context) {
    const file = context.filename;
    /** @param {{ source?: { value?: unknown } | null }} node */
    const check = (node) => {
      const name = node.source?.value;
      if (typeof name !== 'string' || !name.startsWith('.')) return;
      const way = wayTo(resolve(dirname(file), name), file);
      if (way === undefined) return;
      const shown = [file, ...way].map((step) => relative(context.cwd, step)).join(' → ');
      context.report({
        node: /** @type {import('estree').Node} */ (node),
        messageId: 'cycle',
        data: { way: shown },
      });
    };
    return {
      ImportDeclaration: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      ImportExpression: check,
    };
  },
};
