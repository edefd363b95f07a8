import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

import { settingsOf } from '../src/config/config.ts';
import { SETTINGS, type SettingName } from '../src/config/settings.ts';

const ROOT = join(import.meta.dirname, '..');
const contentOf = (file: string) => readFileSync(join(ROOT, file), 'utf8');
const { version } = JSON.parse(contentOf('package.json')) as { readonly version: string };

interface Pod {
  readonly containers: readonly Readonly<Record<string, Readonly<Record<string, number>>>>[];
  readonly [key: string]: unknown;
}
interface Deployment {
  readonly spec: {
    readonly selector: { readonly matchLabels: object };
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: Pod };
  };
}

const deployment = (path: string) => parse(contentOf(join('deploy', path))) as Deployment; // our own file
const text = expect.any(String) as string;

describe.each([
  ['webhook', 'base/webhook-deployment.yaml', 'base/controllers-deployment.yaml'],
  ['controllers', 'base/controllers-deployment.yaml', 'base/webhook-deployment.yaml'],
  ['serve', 'components/single/deployment.yaml', undefined],
])('gatehouse %s', (command, path, other) => {
  const { spec } = deployment(path);
  const pod = spec.template.spec;

  test('two replicas of this version run, even during a rollout, with a high priority and all probes', () => {
    const probe = expect.any(Object) as object;
    expect(spec).toMatchObject({
      replicas: 2,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    });
    expect(pod).toMatchObject({
      priorityClassName: 'system-cluster-critical',
      containers: [
        {
          args: [command],
          image: `gatehouse:${version}`,
          startupProbe: probe,
          readinessProbe: probe,
          livenessProbe: probe,
        },
      ],
    });
  });

  test('the Deployment selects only its own pods, and spreads them over nodes', () => {
    const { matchLabels } = spec.selector;
    expect(spec.template.metadata.labels).toMatchObject(matchLabels);
    if (other === undefined) return;
    expect(deployment(other).spec.template.metadata.labels).not.toMatchObject(matchLabels);
    expect(pod.topologySpreadConstraints).toHaveLength(1);
  });

  test('pods follow the Pod Security Standard `restricted`, and have a read-only root file system', () => {
    expect(pod.securityContext).toEqual({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    expect(pod.containers.map(({ securityContext }) => securityContext)).toEqual([
      {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        runAsUser: 65532,
        runAsGroup: 65532,
        capabilities: { drop: ['ALL'] },
      },
    ]);
    for (const shared of ['hostNetwork', 'hostPID', 'hostIPC', 'volumes'])
      expect(pod[shared]).toBeUndefined();
  });

  test('a process that hangs is gone within 15 s', () => {
    const { periodSeconds, timeoutSeconds, failureThreshold, terminationGracePeriodSeconds } = {
      periodSeconds: 10,
      timeoutSeconds: 1,
      failureThreshold: 3,
      terminationGracePeriodSeconds: 30,
      ...pod.containers[0]?.livenessProbe,
    };
    const seconds = periodSeconds * failureThreshold + timeoutSeconds + terminationGracePeriodSeconds;
    expect(seconds).toBeLessThanOrEqual(15);
  });

  test('pods request memory and CPU, and limit only memory, because a CPU limit would slow down reviews', () => {
    expect(pod.containers[0]?.resources).toEqual({
      requests: { cpu: text, memory: text },
      limits: { memory: text },
    });
  });
});

function podTemplates(value: unknown): readonly Pod[] {
  if (typeof value !== 'object' || value === null) return [];
  const { template } = value as { readonly template?: { readonly spec?: Partial<Pod> } | null };
  const spec = template?.spec;
  const own = Array.isArray(spec?.containers) ? [spec as Pod] : [];
  return [...own, ...Object.values(value).flatMap(podTemplates)];
}

const filesIn = (folder: string, ending: string): readonly string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));

test('no pod that Gatehouse ships or documents has variables of Services', () => {
  const templates = 'deploy/chart/gatehouse/templates';
  // The tests of the policy library contain objects under review.
  const manifests = filesIn('deploy', '.yaml').filter(
    (file) => !file.startsWith(templates) && !file.includes('/library/tests/'),
  );
  const blocks = filesIn('docs', '.md').flatMap((file) =>
    // Not those marked as fragments, which are patches.
    [...contentOf(file).matchAll(/^ *```yaml\n([^]*?)^ *```/gm)].map(
      ([, text = '']) => [file, text] as const,
    ),
  );
  const pods = [...manifests.map((file) => [file, contentOf(file)] as const), ...blocks].flatMap(
    ([file, text]) =>
      parseAllDocuments(text)
        .flatMap((document) => podTemplates(document.toJS()))
        .map(({ enableServiceLinks }) => ({ file, enableServiceLinks })),
  );
  expect(pods.filter(({ enableServiceLinks }) => enableServiceLinks !== false)).toEqual([]);
  const links = /^ +(containers:|enableServiceLinks: false)$/gm;
  const ofChart = filesIn(templates, '.yaml').flatMap((file) => {
    const found = [...contentOf(file).matchAll(links)].map(([line]) => line.trim());
    return found.length === 0 ? [] : [{ file, found: found.toSorted() }];
  });
  for (const { file, found } of ofChart)
    expect(found, file).toEqual(['containers:', 'enableServiceLinks: false']);
  // The Deployments, the CronJob and the examples.
  expect([new Set(pods.map(({ file }) => file)).size, ofChart.length]).toEqual([7, 4]);
});

const PROCESSES = {
  'gatehouse-webhook': 'webhook',
  'gatehouse-controllers': 'controllers',
  gatehouse: 'serve',
} as const;

interface Patch {
  readonly path?: string;
  readonly target?: { readonly kind?: string; readonly name?: string };
  readonly patch?: string;
}

test('components set a flag in each Deployment whose process uses it, and in no other', () => {
  const flags = filesIn('deploy/components', 'kustomization.yaml').flatMap((file) => {
    const { patches = [] } = parse(contentOf(file)) as { readonly patches?: readonly Patch[] }; // our own file
    return patches
      .filter(({ target }) => target?.kind === 'Deployment')
      .flatMap(({ target, patch = '' }) => {
        // Without a name, the target has the label of all three.
        const names = new RegExp(`^(${target?.name ?? '.*'})$`);
        const deployments = Object.keys(PROCESSES).filter((name) => names.test(name));
        return [...patch.matchAll(/value: --([a-z-]+)/g)].map(([, flag = '']) => ({
          file,
          flag,
          deployments,
        }));
      });
  });
  expect(flags.length).toBeGreaterThan(5);
  for (const { file, flag, deployments } of flags) {
    expect(Object.keys(SETTINGS), file).toContain(flag);
    const users = Object.entries(PROCESSES).filter(
      ([, process]) => settingsOf(process).has(flag as SettingName), // the line above checks it
    );
    expect(deployments, `${file}: --${flag}`).toEqual(users.map(([name]) => name));
  }
});

test('each patch of a kustomization has one document, because kubectl 1.30 reads only the first', () => {
  const patches = filesIn('deploy', 'kustomization.yaml').flatMap((where) => {
    const { patches: ours = [] } = parse(contentOf(where)) as { readonly patches?: readonly Patch[] };
    return ours.map(({ path, patch = '' }) => ({
      where,
      text: path === undefined ? patch : contentOf(join(dirname(where), path)),
    }));
  });
  expect(patches.length).toBeGreaterThan(5);
  expect(patches.filter(({ text }) => parseAllDocuments(text).length > 1)).toEqual([]);
});
