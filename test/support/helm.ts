/**
 * Renders charts: with Helm, if it is on the PATH, and with the small program in this folder, if Go and sprig are
 * installed.
 */
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';

const run = promisify(execFile);
const CHART = join(import.meta.dirname, '..', '..', 'deploy', 'chart', 'gatehouse');

export interface RenderOptions {
  /** Default: gatehouse-system. */
  readonly namespace?: string;
  /** A version such as 1.20.2. */
  readonly kubeVersion?: string;
  /** API versions of the cluster, such as gatehouse.dev/v1alpha1/RestoreDetector. */
  readonly apiVersions?: readonly string[];
  /** Values, as in a values file. */
  readonly values?: object;
  /** Values files, applied before `values`. */
  readonly files?: readonly string[];
}

export interface Helm {
  readonly name: string;
  /** @throws Error with the renderer's message if it cannot render the chart with these values */
  readonly render: (options?: RenderOptions) => Promise<readonly KubeObject[]>;
  /** The notes that Helm prints after an installation; undefined if the renderer needs a cluster for them. */
  readonly notes: ((options?: RenderOptions) => Promise<string>) | undefined;
}

/** All available renderers; logs the reason why one is missing. */
export async function findHelms(): Promise<readonly Helm[]> {
  const helms: Helm[] = [];
  if (isThere('helm')) helms.push(createHelm('helm', 'helm', false));
  const built = await build();
  switch (built.kind) {
    case 'built':
      helms.push(createHelm('helm-template', built.binary, true));
      break;
    case 'impossible':
      console.warn(`skipped the chart rendered by test/support/helm-template: ${built.reason}`);
  }
  return helms;
}

function createHelm(name: string, binary: string, hasNotes: boolean): Helm {
  const rendered = async (options: RenderOptions, ...more: readonly string[]): Promise<string> => {
    const { namespace = 'gatehouse-system', kubeVersion, apiVersions = [], values, files = [] } = options;
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-values-'));
    const own = join(folder, 'values.json');
    writeFileSync(own, JSON.stringify(values ?? {})); // JSON is YAML
    const args = ['template', 'gatehouse', CHART, '--namespace', namespace];
    if (kubeVersion !== undefined) args.push('--kube-version', kubeVersion);
    for (const version of apiVersions) args.push('--api-versions', version);
    for (const file of [...files, own]) args.push('-f', file);
    try {
      const { stdout } = await run(binary, [...args, ...more], { maxBuffer: 16 * 2 ** 20 });
      return stdout;
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  return {
    name,
    render: async (options = {}) =>
      parseAllDocuments(await rendered(options))
        .map((document) => {
          if (document.errors[0] !== undefined) throw document.errors[0];
          return document.toJS() as KubeObject | null; // the output of a template; a file may contain only a comment
        })
        .filter((object) => object !== null),
    notes: hasNotes ? (options = {}) => rendered(options, '--notes') : undefined,
  };
}

type Built =
  | { readonly kind: 'built'; readonly binary: string }
  | { readonly kind: 'impossible'; readonly reason: string };

/** Debian's folder for the sources of Go libraries. */
const GOPATH = '/usr/share/gocode';

async function build(): Promise<Built> {
  const source = join(import.meta.dirname, 'helm-template', 'main.go');
  const digest = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16);
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  const binary = join(cache, 'gatehouse', 'helm-template', digest, 'helm-template');
  if (existsSync(binary)) return { kind: 'built', binary };

  const go = ['go', '/usr/lib/go-1.19/bin/go'].find(isThere);
  const install = 'apt-get install golang-go golang-github-masterminds-sprig-dev';
  if (go === undefined) return { kind: 'impossible', reason: `there is no Go (${install})` };
  if (!existsSync(join(GOPATH, 'src', 'github.com', 'Masterminds', 'sprig')))
    return { kind: 'impossible', reason: `Debian's package of sprig is not installed (${install})` };

  const folder = dirname(binary);
  mkdirSync(folder, { recursive: true });
  // Another test run may build the same program. The last one replaces an identical file.
  const unfinished = mkdtempSync(join(folder, 'build-'));
  const env = {
    ...process.env,
    GOPATH,
    GO111MODULE: 'off',
    GOFLAGS: '',
    GOCACHE: join(unfinished, 'cache'),
    CGO_ENABLED: '0',
  };
  try {
    const made = join(unfinished, 'helm-template');
    await run(go, ['build', '-o', made, source], { env });
    renameSync(made, binary);
  } finally {
    rmSync(unfinished, { recursive: true });
  }
  return { kind: 'built', binary };
}

function isThere(command: string): boolean {
  try {
    execFileSync(command, ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
