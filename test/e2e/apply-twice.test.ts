// suite: shared-plane, sandbox: no (it does not fill in all defaults), slow, nightly
/**
 * Whoever applies the manifests again changes nothing, and takes over nothing: where the API server compares a list or a map as a
 * whole, the manifests say what it fills in there.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';

import { established, startCluster, type Cluster } from '../support/cluster.ts';
import { renderChart } from '../support/helm.ts';
import { HAS_KUBECTL } from '../support/kubectl.ts';
import { MAIN } from '../support/main-module.ts';
import { isNightly } from '../support/nightly.ts';

const run = promisify(execFile);
const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
const DETECTORS = 'gatehouse.dev/v1alpha1/RestoreDetector';

/** Folders of deploy/ that are applied together. */
interface Composition {
  readonly resources: readonly string[];
  readonly components?: readonly string[];
}

const components = readdirSync(join(DEPLOY, 'components'));
const isWithout = (name: string) => name.startsWith('without-') || name === 'namespaces';
const isSingle = (name: string) => name.startsWith('single');
const isKustomization = (folder: string) => existsSync(join(DEPLOY, folder, 'kustomization.yaml'));
const inDeploy = (folder: string) => readdirSync(join(DEPLOY, folder)).map((name) => `${folder}/${name}`);

const COMPOSITIONS: Readonly<Record<string, Composition>> = {
  ...Object.fromEntries(inDeploy('overlays').map((overlay) => [overlay, { resources: [overlay] }])),
  'all components that add something': {
    resources: ['base'],
    components: components.filter((name) => !isWithout(name) && !isSingle(name)),
  },
  'all components that remove something': { resources: ['base'], components: components.filter(isWithout) },
  'the components of one Deployment': { resources: ['base'], components: components.filter(isSingle) },
  detectors: { resources: inDeploy('detectors') },
  examples: { resources: ['examples', ...inDeploy('examples').filter(isKustomization)] },
};

/** CI applies these. The others, which the nightly run applies, repeat most of them. */
const IN_CI = new Set(['overlays/default', 'all components that add something']);
const APPLIED = Object.entries(COMPOSITIONS).filter(([name]) => isNightly || IN_CI.has(name));
if (!isNightly) console.log(`only ${[...IN_CI].join(', ')} are applied; npm run test:nightly applies all`);

/** kubectl sends the selector of a budget in every patch, equal or not, and then says `configured`. */
const ALWAYS_PATCHED = /^poddisruptionbudget\.policy\/\S+ configured$/;

describe.skipIf(!HAS_KUBECTL)('applied again,', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster();
    await kubectl('apply', '-k', join(DEPLOY, 'base'));
    for (const name of ['server', 'datacenter'])
      await kubectl('apply', '-f', join(DEPLOY, `examples/${name}-crd.yaml`));
    for (const name of ['restoredetectors.gatehouse.dev', 'datacenters.infra.example.com'])
      await established(cluster, name);
  });
  afterAll(() => cluster.stop());

  const kubectl = async (...args: readonly string[]) => {
    const { stdout } = await run('kubectl', ['--kubeconfig', cluster.plane.kubeconfig('admin'), ...args]);
    return stdout.split('\n').filter((line) => line !== '');
  };
  /** As Helm 4 applies: another manager, which forces nothing. @throws Error with the conflicts */
  const applyAsHelm = (...args: readonly string[]) =>
    kubectl('apply', '--server-side', '--dry-run=server', '--field-manager=helm', ...args);

  /** Kustomize requires relative paths. */
  const folderOf = ({ resources, components = [] }: Composition) => {
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-apply-'));
    onTestFinished(() => {
      rmSync(folder, { recursive: true });
    });
    const path = (...names: readonly string[]) => relative(folder, join(DEPLOY, ...names));
    const kustomization = {
      resources: resources.map((name) => path(name)),
      components: components.map((name) => path('components', name)),
    };
    writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(kustomization)); // JSON is YAML
    return folder;
  };
  const generations = () =>
    kubectl(
      'get',
      'poddisruptionbudgets',
      '-A',
      '-o',
      'custom-columns=:.metadata.name,:.metadata.generation',
    );
  /** @param from `-k` and a folder, or `-f` and a file */
  const changesNothing = async (...from: readonly string[]) => {
    const first = await kubectl('apply', ...from);
    const budgets = await generations();
    const second = await kubectl('apply', ...from);
    expect(second.filter((line) => !line.endsWith(' unchanged') && !ALWAYS_PATCHED.test(line))).toEqual([]);
    expect(second.length).toBe(first.length);
    expect(await generations()).toEqual(budgets);
    expect(await applyAsHelm(...from)).toHaveLength(first.length);
  };

  test.each(APPLIED)(
    '%s: kubectl changes nothing, and neither kubectl nor the chart meets a conflict',
    async (name, composition) => {
      const folder = folderOf(composition);
      await changesNothing('-k', folder);
      const values = join(DEPLOY, 'chart', 'values', `${basename(name)}.yaml`);
      if (!existsSync(values)) return;
      const items = await renderChart({ files: [values], apiVersions: [DETECTORS] });
      const file = join(folder, 'chart.json');
      writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
      expect(await applyAsHelm('-f', file)).toHaveLength(items.length);
    },
  );

  test('what `gatehouse manifests --vap` prints: kubectl changes nothing, and meets no conflict', async () => {
    const { major, minor } = cluster.plane.version;
    const flags = ['--target-version', `${major}.${minor}`, ...(minor >= 36 ? ['--map'] : [])];
    const policies = join(DEPLOY, 'examples', 'library');
    const { stdout } = await run(process.execPath, [MAIN, 'manifests', '--vap', ...flags, '-p', policies]);
    const file = join(folderOf({ resources: [] }), 'native.yaml');
    writeFileSync(file, stdout);
    await changesNothing('-f', file);
  });
});
