// suite: shared-plane, sandbox: no (Helm applies on the server side), slow
/** The chart as a release of Helm 4, which applies on the server side and forces nothing. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { deployments } from '../../src/kube/well-known.ts';
import { startCluster, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { changeRelease } from '../support/helm.ts';
import { HAS_KUBECTL } from '../support/kubectl.ts';

const run = promisify(execFile);
const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');

describe.skipIf(!HAS_KUBECTL)('the release', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster();
    await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } });
  });
  afterAll(() => cluster.stop());

  const kubeconfig = () => cluster.plane.kubeconfig('admin');
  const kubectl = (...args: readonly string[]) => run('kubectl', ['--kubeconfig', kubeconfig(), ...args]);
  const scale = (replicas: number) =>
    kubectl(
      ...['scale', '--namespace', SYSTEM_NAMESPACE, 'deployment/gatehouse-webhook', `--replicas=${replicas}`],
    );
  /** `values` replace those of former upgrades. */
  const helm = (command: string, values: object = {}) => {
    const words = command.split(' ');
    return changeRelease(words[0] === 'upgrade' ? [...words, '--reset-values'] : words, kubeconfig(), {
      values,
    });
  };
  const replicas = async () => {
    const ref = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-webhook' };
    const found = await cluster.admin.get<KubeObject & { readonly spec: { readonly replicas: number } }>(
      deployments,
      ref,
    );
    return found?.spec.replicas;
  };

  /** Without hooks: no kubelet would run their pods. */
  const uninstall = async () => {
    await helm('uninstall --no-hooks');
  };

  describe('of an installation that was scaled', () => {
    beforeEach(async () => {
      await helm('install');
      return uninstall;
    });

    test('keeps the number of replicas in each upgrade, and reports that', async () => {
      expect(await replicas()).toBe(2);
      for (const number of [3, 0, 4]) {
        await scale(number);
        const said = await helm('upgrade', { podLabels: { upgrade: String(number) } });
        expect(said).toContain(
          `gatehouse-webhook was scaled to ${number}, and keeps this number. The values say 2.`,
        );
        expect(await replicas()).toBe(number);
      }
      await helm('upgrade', { replicas: null });
      await helm('upgrade', { replicas: null, podLabels: { upgrade: 'another' } });
      expect(await replicas()).toBe(4);
    });

    test('takes over another number in the values: with a conflict, if a user has scaled', async () => {
      await helm('upgrade', { replicas: 3 });
      expect(await replicas()).toBe(3);
      await scale(5);
      await expect(helm('upgrade', { replicas: 4 })).rejects.toThrow(
        /conflict with "kubectl".*\.spec\.replicas/s,
      );
      expect(await replicas()).toBe(5);
      await helm('upgrade --force-conflicts', { replicas: 4 });
      expect(await replicas()).toBe(4);
    });

    test('rolls back the number with the rest, if it is told to', async () => {
      await scale(5);
      await helm('upgrade', { podLabels: { team: 'a' } });
      await expect(helm('rollback 1')).rejects.toThrow(/conflict with "kubectl".*\.spec\.replicas/s);
      await helm('rollback 2');
      expect(await replicas()).toBe(5);
      await helm('rollback 1 --force-conflicts');
      expect(await replicas()).toBe(2);
    });
  });

  test('that sets no number meets no conflict, not even in a rollback', async () => {
    const values = { replicas: null };
    await helm('install', values);
    try {
      expect(await replicas()).toBe(1);
      await scale(3);
      await helm('upgrade', { ...values, podLabels: { team: 'a' } });
      expect(await replicas()).toBe(3);
      await scale(4);
      await helm('rollback 1');
      expect(await replicas()).toBe(4);
    } finally {
      await uninstall();
    }
  });

  test('of an installation that kubectl applied is the only owner, as docs/installing.md says', async () => {
    const folder = ['-k', join(DEPLOY, 'overlays', 'default')];
    await kubectl('apply', ...folder);
    await kubectl('apply', '--server-side', '--field-manager=helm', ...folder);
    try {
      await helm('upgrade --install --take-ownership');
      await helm('upgrade', { image: { tag: 'next' }, resources: { limits: { memory: '1Gi' } } });
    } finally {
      await uninstall();
    }
  });
});
