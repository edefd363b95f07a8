/** Follows a page like a reader who types every command. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseAllDocuments } from 'yaml';

import { isAsSaid, runCommand, runStep, type Ran, type Shell } from '../../scripts/run-step.ts';
import type { Step } from '../../scripts/tour-steps.ts';
import type { Action, Script } from './doc-pages.ts';

/** Differences from the page, in the order of the page. */
export async function runPage({ actions }: Script, shell: Shell): Promise<readonly string[]> {
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

/** Whether the command names the file or its folder. */
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

/** Kinds for which Gatehouse sets the condition `Ready`. */
const BECOME_READY = new Set(['AdmissionPolicy', 'ConversionPolicy', 'RestoreDetector']);

/** Applies a manifest of the page, like a reader. */
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
    .map(
      (
        manifest,
      ) => `kubectl wait ${manifest?.kind} ${manifest?.metadata?.name} --for=condition=Ready --timeout=30s ||
      { kubectl get ${manifest?.kind} ${manifest?.metadata?.name} -o jsonpath='{.status.conditions}'; exit 1; }`,
    );
  return await succeed(
    [
      'kubectl apply --server-side --force-conflicts --validate=strict -f page/kustomization.yaml',
      ...ready,
    ].join('\n'),
    shell,
  );
}

/** Reports a skipped block that its shell cannot parse. */
async function checkSkipped(
  { language, text }: { readonly language: string; readonly text: string },
  shell: Shell,
): Promise<string | undefined> {
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
