// suite: processes
/** Every command and manifest of the README and of docs/ works as its page says: see support/doc-pages.ts. */
import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { type Action, type Page, pages, ROOT, type Script, scriptOf } from '../support/doc-pages.ts';
import { HAS_KUBECTL } from '../support/kubectl.ts';
import { isAsSaid, type Ran, runCommand, runStep, type Shell, writeProgram } from '../../scripts/run-step.ts';
import type { Block } from '../../scripts/markdown.ts';
import type { Step } from '../../scripts/tour-steps.ts';
import { OWN_NAME } from '../../src/runtime/handlers/load-handlers.ts';
import { MAIN } from '../support/main-module.ts';
import { eventually, startProgram, tail } from '../support/processes.ts';

const PATIENCE_MS = 300_000;

describe.runIf(HAS_KUBECTL)('the commands of each page work as shown', { timeout: PATIENCE_MS }, () => {
  /** Selects pages by a regular expression over their paths, for authors of a page. */
  const only = process.env.GATEHOUSE_PAGE;
  const wanted = pages()
    .map((page) => ({ ...page, script: scriptOf(page) }))
    .filter(({ script }) => script.actions.length > 0)
    .filter(({ path }) => only === undefined || new RegExp(only).test(path));

  test.each(wanted)('$path', async ({ path, script }) => {
    for (const action of script.actions) {
      if (action.kind === 'skip') console.info(`${path}:${action.line}: not run: ${action.reason}`);
    }
    const reader = await startReader(script.sandbox);
    try {
      expect((await runPage(script, reader.shell)).join('\n\n')).toBe('');
    } finally {
      await reader.stop();
    }
  });
});

test('TypeScript of the pages compiles against the package', { timeout: PATIENCE_MS }, async () => {
  expect(await typeErrors(pages())).toBe('');
  const wrong = "```ts\n// a/b.ts\nimport { nothing } from '@gatehouse-dev/gatehouse';\n```\n";
  expect(await typeErrors([{ path: 'docs/one.md', markdown: wrong }])).toContain(
    'pages/docs/one.md/a/b.ts(2,10)',
  );
});

const run = promisify(execFile);
const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');

const CONFIG = {
  extends: join(ROOT, 'tsconfig.json'),
  compilerOptions: {
    paths: {
      '@gatehouse-dev/gatehouse': [join(ROOT, 'src', 'index.ts')],
      '@gatehouse-dev/gatehouse/cel': [join(ROOT, 'src', 'cel.ts')],
      '@gatehouse-dev/gatehouse/testing': [join(ROOT, 'src', 'testing.ts')],
    },
    typeRoots: [join(ROOT, 'node_modules', '@types')],
    allowImportingTsExtensions: true,
  },
  include: ['pages/**/*'],
};

async function typeErrors(pages: readonly Page[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-docs-types-'));
  try {
    const files = pages.flatMap(filesOf);
    if (files.length === 0) throw new Error('no page has a block of TypeScript');
    for (const { path, text } of files) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(CONFIG));
    const args = [TSC, '-p', folder, '--pretty', 'false'];
    return await run(process.execPath, args, { cwd: folder }).then(
      () => '',
      (error: unknown) => (error as { readonly stdout: string }).stdout,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** `pages/docs/handlers.md/handlers/servers.ts`; a block without a file name is named after its line. */
const filesOf = (page: Page) =>
  scriptOf(page).actions.flatMap((action) =>
    action.kind === 'write' && action.file.endsWith('.ts')
      ? [{ path: join('pages', page.path, action.file), text: action.text }]
      : [],
  );

async function runPage({ actions }: Script, shell: Shell): Promise<readonly string[]> {
  const complaints: string[] = unusedFiles(actions);
  for (const action of actions) {
    const complaint = await perform(action, shell);
    if (complaint !== undefined) complaints.push(`line ${action.line}: ${complaint}`);
  }
  return complaints;
}

function unusedFiles(actions: readonly Action[]): string[] {
  const commands = actions.map((action) =>
    action.kind === 'step' ? action.step.command : action.kind === 'prepare' ? action.command : '',
  );
  return actions.flatMap((action) => {
    if (action.kind !== 'write' || !/\.ya?ml$/.test(action.file)) return [];
    const used = commands.some((command) => mentions(command, action.file));
    return used ? [] : [`line ${action.line}: no command of this page uses ${action.file}`];
  });
}

const mentions = (command: string, file: string): boolean =>
  command.includes(file) ||
  (dirname(file) !== '.' && command.includes(dirname(file))) ||
  (file.endsWith('kustomization.yaml') && / (-k|kustomize) /.test(command));

async function perform(action: Action, shell: Shell): Promise<string | undefined> {
  switch (action.kind) {
    case 'prepare':
      return await succeed(action.command, shell);
    case 'step':
      return await tryStep(action.step, shell);
    case 'write':
      write(join(shell.cwd, action.file), action.text);
      return undefined;
    case 'apply':
      return await apply(action.text, shell);
    case 'complain':
      return action.complaint;
    case 'skip':
      return await checkSkipped(action.block, shell);
  }
}

async function succeed(command: string, shell: Shell): Promise<string | undefined> {
  const { code, printed } = await runCommand(`set -e\n${command}`, shell);
  return code === 0 ? undefined : `$ ${command}\nfails with ${code ?? 'no answer'}:\n${printed}`;
}

async function tryStep(step: Step, shell: Shell): Promise<string | undefined> {
  const ran = await runStep(step, shell);
  return isAsSaid(step, ran) ? undefined : differs(step, ran);
}

const differs = ({ command, expected }: Step, { code, printed }: Ran): string =>
  `$ ${command}\nsays:\n${printed}(exit code ${code ?? 'none: it does not end'})\nnot:\n${expected}\n`;

interface Manifest {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: { readonly name?: string };
}

const BECOME_READY = new Set(['AdmissionPolicy', 'ConversionPolicy', 'RestoreDetector']);

async function apply(text: string, shell: Shell): Promise<string | undefined> {
  const manifests = parseAllDocuments(text).map((document) => document.toJS() as Manifest | null); // only read below
  const [first] = manifests;
  if (manifests.some((manifest) => manifest?.apiVersion === undefined || manifest.kind === undefined))
    return 'this is no whole manifest: mark it as `yaml fragment`, or name a file in its first line (# policy.yaml)';
  const file = join(shell.cwd, 'page', 'kustomization.yaml');
  write(file, text);
  if (first?.kind === 'Kustomization') return await succeed('kubectl kustomize page', shell);
  const ready = manifests
    .filter((manifest) => BECOME_READY.has(manifest?.kind ?? ''))
    .map((manifest) => `${manifest?.kind} ${manifest?.metadata?.name}`)
    .map(
      (what) => `kubectl wait ${what} --for=condition=Ready --timeout=30s ||
      { kubectl get ${what} -o jsonpath='{.status.conditions}'; exit 1; }`,
    );
  const applying = 'kubectl apply --server-side --force-conflicts --validate=strict';
  return await succeed([`${applying} -f page/kustomization.yaml`, ...ready].join('\n'), shell);
}

async function checkSkipped({ language, text }: Block, shell: Shell): Promise<string | undefined> {
  if (language !== 'sh' && language !== 'bash') return undefined;
  const file = join(shell.cwd, 'page', 'block.sh');
  // <name> is a placeholder for a value of the reader.
  write(file, text.replaceAll(/<[a-z][\w ]*>/g, 'NAME'));
  return await succeed('bash -n page/block.sh', shell);
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

const READY_WITHIN_MS = 60_000;

/** @param flags arguments of `gatehouse sandbox` */
async function startReader(flags: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-docs-'));
  const home = join(folder, 'home');
  const bin = join(folder, 'bin');
  const clone = join(folder, 'gatehouse');
  for (const made of [home, bin, clone, join(folder, 'tmp'), join(home, '.local', 'bin')])
    mkdirSync(made, { recursive: true });
  writeProgram(bin, MAIN);
  cloneInto(clone);
  writePackage(folder);
  const env = {
    PATH: [
      ...[bin, join(home, '.local', 'bin'), dirname(process.execPath), ...folderOf('kubectl')],
      ...['/usr/local/bin', '/usr/bin', '/bin'],
    ].join(delimiter),
    HOME: home,
    TMPDIR: join(folder, 'tmp'),
    KUBECONFIG: join(folder, 'kubeconfig'),
    GOGC: 'off', // kubectl ends before garbage collection pays off
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, // of test/support/bundle-setup.ts
    LANG: 'C.UTF-8',
    TZ: 'UTC',
  };
  const logFile = join(folder, 'sandbox.log');
  const program = startProgram(process.execPath, [MAIN, 'sandbox', ...flags], { logFile, env, cwd: clone });
  const stop = async () => {
    await program.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const kubeconfig = await eventually(
      'a sandbox',
      () => {
        if (!program.isRunning()) throw new Error(tail(logFile));
        return /^ *export KUBECONFIG=(\S+)$/m.exec(readFileSync(logFile, 'utf8'))?.[1];
      },
      { timeoutMs: READY_WITHIN_MS },
    );
    symlinkSync(kubeconfig, env.KUBECONFIG);
  } catch (error) {
    await stop();
    throw error;
  }
  const shell: Shell = { cwd: clone, env };
  return { shell, stop };
}

const folderOf = (name: string): readonly string[] =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => existsSync(join(folder, name)))
    .slice(0, 1);

/** The package as `npm install` would put it above the project of a reader, but from its sources. */
function writePackage(folder: string): void {
  const path = join(folder, 'node_modules', OWN_NAME);
  mkdirSync(path, { recursive: true });
  const exports = { '.': './index.ts', './cel': './cel.ts', './testing': './testing.ts' };
  writeFileSync(join(path, 'package.json'), JSON.stringify({ type: 'module', exports }));
  for (const name of ['index.ts', 'cel.ts', 'testing.ts'])
    symlinkSync(join(ROOT, 'src', name), join(path, name));
}

/** Copies deploy/: pages write into it, and kustomize follows no symlinks out of a folder. Links the rest. */
function cloneInto(clone: string): void {
  const copied = new Set(['deploy']);
  const left = new Set(['.git', 'dist', 'coverage']);
  for (const name of readdirSync(ROOT)) {
    if (left.has(name)) continue;
    if (copied.has(name)) cpSync(join(ROOT, name), join(clone, name), { recursive: true });
    else symlinkSync(join(ROOT, name), join(clone, name));
  }
}
