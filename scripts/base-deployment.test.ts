import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

const ROOT = join(import.meta.dirname, '..');
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly version: string;
};

interface Deployment {
  readonly spec: {
    readonly replicas: number;
    readonly strategy: object;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: Pod;
    };
  };
}
interface Pod {
  readonly containers: readonly Readonly<Record<string, unknown>>[];
  readonly [key: string]: unknown;
}

const deployment = (path: string) => parse(readFileSync(join(ROOT, 'deploy', path), 'utf8')) as Deployment; // our own file

describe.each([
  ['webhook', 'base/webhook-deployment.yaml', true],
  ['controllers', 'base/controllers-deployment.yaml', true],
  ['serve', 'components/single/deployment.yaml', false],
])('gatehouse %s', (command, path, isSpread) => {
  const { spec } = deployment(path);
  const pod = spec.template.spec;

  test('two replicas run, also during a rollout', () => {
    expect(pod.containers.map(({ args }) => args)).toEqual([[command]]);
    expect(spec.replicas).toBe(2);
    expect(spec.strategy).toEqual({ rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } });
  });

  test('the Deployment selects its own pods, and not those of the others', () => {
    const { matchLabels } = spec.selector;
    expect(spec.template.metadata.labels).toMatchObject(matchLabels);
    const others = ['base/webhook-deployment.yaml', 'base/controllers-deployment.yaml'].filter(
      (other) => other !== path && isSpread,
    );
    for (const other of others)
      expect(deployment(other).spec.template.metadata.labels).not.toMatchObject(matchLabels);
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

  test('pods are spread over nodes, have a high priority, and have startup, readiness and liveness probes', () => {
    if (isSpread) expect(pod.topologySpreadConstraints).toHaveLength(1);
    expect(pod.priorityClassName).toBe('system-cluster-critical');
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
      expect(pod.containers[0]).toHaveProperty(probe);
  });

  test('pods request memory and CPU, and limit only memory, because a CPU limit would slow down reviews', () => {
    expect(pod.containers[0]?.resources).toEqual({
      requests: { cpu: expect.any(String) as string, memory: expect.any(String) as string },
      limits: { memory: expect.any(String) as string },
    });
  });

  test('the image has the version of the package', () => {
    expect(pod.containers[0]?.image).toBe(`gatehouse:${version}`);
  });
});
