import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const ROOT = join(import.meta.dirname, '..');
// Our own file.
const { spec } = parse(readFileSync(join(ROOT, 'deploy', 'base', 'deployment.yaml'), 'utf8')) as Deployment;
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly version: string;
};
const pod = spec.template.spec;

interface Deployment {
  readonly spec: { readonly replicas: number; readonly template: { readonly spec: Pod } };
}
interface Pod {
  readonly containers: readonly Readonly<Record<string, unknown>>[];
  readonly [key: string]: unknown;
}

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
  for (const shared of ['hostNetwork', 'hostPID', 'hostIPC', 'volumes']) expect(pod[shared]).toBeUndefined();
});

test('pods are spread over nodes, have a high priority, and have startup, readiness and liveness probes', () => {
  expect(pod.topologySpreadConstraints).toHaveLength(1);
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
