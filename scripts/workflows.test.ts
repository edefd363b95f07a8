import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, '.github', 'workflows');

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly uses?: string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly 'timeout-minutes'?: number;
  readonly defaults?: { readonly run?: { readonly shell?: string } };
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const files = readdirSync(FOLDER).map((name) => {
  const text = readFileSync(join(FOLDER, name), 'utf8');
  return { name, text, workflow: parse(text) as Workflow }; // our own files
});
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
};
const stepsOf = ({ jobs }: Workflow) => Object.values(jobs).flatMap(({ steps = [] }) => steps);

describe.each(files)('the workflow $name', ({ text, workflow }) => {
  const runs = stepsOf(workflow).flatMap(({ run: script }) => (script === undefined ? [] : [script]));

  test('grants no permission to all its jobs, and lists the permissions of each job', () => {
    expect(workflow.permissions).toEqual({});
    for (const [name, job] of Object.entries(workflow.jobs)) {
      expect(job.permissions, name).toBeDefined();
      if (job.uses !== undefined) continue;
      expect(job['timeout-minutes'], name).toBeGreaterThan(0);
      expect(
        job.defaults?.run?.shell,
        `${name}: bash ends at the first command that fails, in a pipe too`,
      ).toBe('bash');
    }
  });

  test('pins every action to a commit, with its version in a comment', () => {
    const used = [...text.matchAll(/^\s*(?:- )?uses: (.+)$/gm)].map(([, reference = '']) => reference);
    const others = used.filter((reference) => !reference.startsWith('./.github/workflows/'));
    expect(others.length).toBeGreaterThan(0);
    expect(
      others.filter((reference) => !/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(reference)),
    ).toEqual([]);
  });

  test('removes the credentials from its checkout', () => {
    const checkouts = stepsOf(workflow).filter(({ uses }) => uses?.startsWith('actions/checkout@') === true);
    expect(checkouts.filter((step) => step.with?.['persist-credentials'] !== false)).toEqual([]);
  });

  test.each(runs)('has a script that bash can parse, and that contains no expression: %s', async (script) => {
    await run('bash', ['-n', '-c', script]);
    expect(
      script,
      'a value must come from an environment variable, or the name of a branch could run commands',
    ).not.toContain('${{');
  });

  test('runs only existing npm scripts and files', () => {
    const named = runs.flatMap((script) =>
      [...script.matchAll(/\bnpm run ([\w:]+)/g)].map(([, name = '']) => name),
    );
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
    const paths = runs.flatMap((script) =>
      [...script.matchAll(/(?:^|\s)((?:scripts|deploy|\.ci)\/[\w./-]+)/gm)].map(([, path = '']) => path),
    );
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});

test('only the job without installed packages may write, and the scanners their findings', () => {
  const writing = files.flatMap(({ name, workflow }) =>
    Object.entries(workflow.jobs)
      .filter(([, { permissions = {} }]) => Object.values(permissions).includes('write'))
      .map(([job, { steps = [] }]) => ({ job: `${name} ${job}`, steps })),
  );
  expect(writing.map(({ job }) => job)).toEqual([
    'codeql.yml analyse',
    'release.yml publish',
    'scorecard.yml analyse',
  ]);
  for (const { steps } of writing)
    expect(steps.filter(({ run: script = '' }) => /npm (ci|install|i|run)\b/.test(script))).toEqual([]);
});

test('CI runs .ci/run, which is executable', () => {
  const ci = files.find(({ name }) => name === 'ci.yml');
  expect(ci && stepsOf(ci.workflow).map(({ run: script }) => script)).toContain('.ci/run');
  expect(statSync(join(ROOT, '.ci', 'run')).mode & 0o111).not.toBe(0);
});

test('a release signs image, chart and files, with provenance and an SBOM', () => {
  const text = files.find(({ name }) => name === 'release.yml')?.text ?? '';
  for (const said of [
    'cosign sign --yes --recursive "$IMAGE@$DIGEST"',
    'cosign sign --yes "$CHARTS/gatehouse@',
    'cosign sign-blob',
    '--attest type=provenance,mode=max --attest "type=sbom,generator=$SBOM_SCANNER"',
    '--driver-opt "image=$BUILDKIT"',
    '--platform linux/amd64,linux/arm64',
    'node scripts/sbom.ts',
    '--provenance --access public',
    'subject-digest: ${{ env.DIGEST }}',
    'subject-path: assets/*',
    'node scripts/executable.ts',
  ])
    expect(text).toContain(said);
});

test('a release finds out that npm cannot accept it before it publishes anything', () => {
  const { jobs } = files.find(({ name }) => name === 'release.yml')?.workflow ?? { jobs: {} };
  const checks = jobs.package?.steps?.map(({ run: script }) => script) ?? [];
  expect(checks, 'npm accepts a trusted publisher only for a package with a version').toContain(
    'npm view @gatehouse-dev/gatehouse name',
  );
  const settings = jobs.publish?.steps?.map((step) => step.with ?? {}) ?? [];
  expect(settings.length).toBeGreaterThan(0);
  expect(
    settings.filter((setting) => 'registry-url' in setting),
    'setup-node would write a placeholder for a token, which npm may use instead',
  ).toEqual([]);
});
