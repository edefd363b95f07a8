/**
 * Changes one operator of the product at a time, in a copy, and runs the unit and integration tests that import it.
 * Prints the changes that no test notices: `node scripts/mutation-sample.ts --count 200 --seed 1`. Run by hand; 200
 * changes take about 30 minutes. `--only FILE:LINE`, or a printed change, tries it again.
 * `--sandbox` also starts the processes, which takes a minute more for each change that nothing else notices.
 */
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import ts from 'typescript';

import { createSeeded } from '../test/support/seeded.ts';
import { copySources } from './mutated-copy.ts';

const ROOMS = ['pki', 'admission', 'restore', 'kube', 'runtime', 'server'].map((room) => `src/${room}`);

const { values: flags } = parseArgs({
  options: {
    root: { type: 'string', default: join(import.meta.dirname, '..') },
    path: { type: 'string', multiple: true, default: ROOMS },
    count: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', multiple: true },
    sandbox: { type: 'boolean', default: false },
  },
});

interface Mutant {
  readonly file: string;
  /** As printed: place, text, new text. */
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly to: string;
}

const PAIRS = ['< <=', '> >=', '=== !==', '&& ||', '+ -'].map((pair) => pair.split(' ') as [string, string]);
const SWAPPED = new Map(PAIRS.flatMap(([one, other]) => [[one, other] as const, [other, one] as const]));

/** All mutants of a file: swapped operators, dropped negations and calls, flipped booleans, swapped arguments. */
function mutantsOf(root: string, file: string): readonly Mutant[] {
  const text = readFileSync(join(root, file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: Mutant[] = [];
  const add = (node: ts.Node, to: string, end = node.getEnd()) => {
    const start = node.getStart();
    const line = source.getLineAndCharacterOfPosition(start).line + 1;
    found.push({ file, name: `${file}:${line}: ${text.slice(start, end)} → ${to}`, start, end, to });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node)) return;
    const swapped = ts.isBinaryExpression(node) ? SWAPPED.get(node.operatorToken.getText()) : undefined;
    if (ts.isBinaryExpression(node) && swapped !== undefined) {
      const isText = [node.left, node.right].some(
        (side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side),
      );
      if (!isText || !['+', '-'].includes(swapped)) add(node.operatorToken, swapped);
    }
    if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
      add(node, node.operand.getText());
    if (ts.isIfStatement(node)) add(node.expression, 'false');
    if (ts.isExpressionStatement(node) && /^(await )?[\w.?]+\(/.test(node.getText())) add(node, ';');
    if (node.kind === ts.SyntaxKind.TrueKeyword) add(node, 'false');
    if (node.kind === ts.SyntaxKind.FalseKeyword) add(node, 'true');
    if (ts.isCallExpression(node)) {
      const [first, second] = node.arguments;
      if (first !== undefined && second !== undefined && [first, second].every(ts.isIdentifier))
        add(first, `${second.getText()}, ${first.getText()}`, second.getEnd());
    }
    node.forEachChild(visit);
  };
  visit(source);
  return found.filter(({ start, end }) => !/^(await )?(\w+\.)*(log|console)\b/.test(text.slice(start, end)));
}

/** The type check refuses a change that no test needs to notice. */
function createCompiler(root: string) {
  const overlay: { file?: string; text?: string; version: number } = { version: 0 };
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => undefined };
  const parsed = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.json'), {}, host);
  const { options = {}, fileNames = [] } = parsed ?? {};
  const service = ts.createLanguageService({
    fileExists: (path) => ts.sys.fileExists(path),
    readFile: (path) => ts.sys.readFile(path),
    directoryExists: (path) => ts.sys.directoryExists(path),
    getDirectories: (path) => ts.sys.getDirectories(path),
    realpath: (path) => ts.sys.realpath?.(path) ?? path,
    getCompilationSettings: () => options,
    getScriptFileNames: () => fileNames,
    getScriptVersion: (file) => (file === overlay.file ? String(overlay.version) : '0'),
    getScriptSnapshot: (file) => {
      const text = file === overlay.file ? overlay.text : ts.sys.readFile(file);
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
    },
    getCurrentDirectory: () => root,
    getDefaultLibFileName: (given) => ts.getDefaultLibFilePath(given),
  });
  return (mutant: Mutant): boolean => {
    const file = join(root, mutant.file);
    Object.assign(overlay, { file, text: mutated(root, mutant), version: overlay.version + 1 });
    return service.getSyntacticDiagnostics(file).length + service.getSemanticDiagnostics(file).length === 0;
  };
}

function mutated(root: string, { file, start, end, to }: Mutant): string {
  const text = readFileSync(join(root, file), 'utf8');
  return text.slice(0, start) + to + text.slice(end);
}

/** Whether a unit test in the file's folder fails, or else a test that imports the file. */
function isNoticed(root: string, mutant: Mutant): boolean {
  const { file } = mutant;
  const suites = [
    ['run', `${dirname(file)}/`, '--project', 'unit'],
    ['related', file, '--project', 'unit'],
    ['related', file, '--project', 'integration', '--retry', '1'], // some of its tests depend on the load
    ...(flags.sandbox ? [['run', '--project', 'sandbox']] : []),
  ];
  const path = join(root, file);
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, mutated(root, mutant));
  try {
    return suites.some((words) => !passes(root, ...words));
  } finally {
    writeFileSync(path, text);
  }
}

function passes(root: string, ...words: readonly string[]): boolean {
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
  const args = [vitest, ...words, '--run', '--bail', '1', '--maxWorkers', '1', '--passWithNoTests'];
  return spawnSync(process.execPath, args, { cwd: root, stdio: 'ignore', timeout: 300_000 }).status === 0;
}

const root = copySources(flags.root);
try {
  const files = flags.path.flatMap((path) =>
    path.endsWith('.ts') ? [path] : globSync(`${path}/**/*.ts`, { cwd: root }),
  );
  const all = files
    .filter((file) => !file.endsWith('.test.ts'))
    .flatMap((file) => mutantsOf(root, file))
    .filter(({ name }) => flags.only?.some((only) => `${name}:`.startsWith(`${only}:`)) ?? true);
  const suites = ['unit', 'integration'];
  const isSound = () => suites.every((suite) => passes(root, 'run', '--project', suite, '--retry', '1'));
  if (flags.only === undefined && !isSound())
    throw new Error('without a change, tests fail or take five minutes: run `npm test`');
  const compiles = createCompiler(root);
  let tried = 0;
  let survivors = 0;
  for (const mutant of createSeeded(Number(flags.seed)).shuffle(all)) {
    if (tried === Number(flags.count)) break;
    if (!compiles(mutant)) continue;
    tried += 1;
    if (isNoticed(root, mutant)) continue;
    survivors += 1;
    console.log(mutant.name);
  }
  console.log(`${tried - survivors} of ${tried} noticed (of ${all.length} possible changes)`);
} finally {
  rmSync(root, { recursive: true });
}
