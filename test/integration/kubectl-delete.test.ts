// suite: processes
/** kubectl deletes and waits: for finalizers, for dependents, and for conditions. */
import { describe, expect, test } from 'vitest';

import { configMapManifest, serverManifest } from '../support/kubectl-objects.ts';
import { describeKubectl } from '../support/kubectl-suite.ts';
import type { Told } from '../support/kubectl.ts';

describeKubectl('kubectl deletes and waits', [], (kubectl) => {
  const { says, refuses } = kubectl;
  const create = (...objects: readonly object[]) => says('create -f -', { stdin: objects });

  describe('delete', () => {
    test.concurrent('by name, by label, all objects, and a missing object', async () => {
      await says('create namespace swept');
      const told: Told = { namespace: 'swept' };
      const stdin = ['a', 'b', 'c', 'd'].map((name, index) =>
        serverManifest(name, { datacenter: 'fra1' }, { labels: { odd: String(index % 2 === 1) } }),
      );
      await says('create -f -', { ...told, stdin });
      expect(await says('delete server a', told)).toBe('server.infra.example.com "a" deleted\n');
      expect(await says('delete server -l odd=true', told)).toBe(
        'server.infra.example.com "b" deleted\nserver.infra.example.com "d" deleted\n',
      );
      expect(await says('delete servers,pods --all', told)).toBe('server.infra.example.com "c" deleted\n');
      expect(await says('delete servers --all', told)).toBe('No resources found\n');
      expect(await refuses('delete server a', told)).toBe(
        'Error from server (NotFound): servers.infra.example.com "a" not found\n',
      );
      expect(await says('delete server a --ignore-not-found', told)).toBe('');
    });

    test.concurrent('--dry-run=server deletes nothing', async () => {
      await create(configMapManifest('dry', {}));
      expect(await says('delete cm dry --dry-run=server')).toBe('configmap "dry" deleted (server dry run)\n');
      expect(await says('get cm dry -o name')).toBe('configmap/dry\n');
    });

    test.concurrent('a namespace with all its objects', async () => {
      await says('create namespace doomed');
      const told: Told = { namespace: 'doomed' };
      await says('create -f -', {
        ...told,
        stdin: [
          configMapManifest('held', {}, { finalizers: ['example.com/hold'] }),
          configMapManifest('free', {}),
        ],
      });
      const deletion = says('delete namespace doomed');
      await says('wait cm/free --for=delete', told);
      expect(await says('get namespace doomed')).toMatch(/doomed +Terminating/);
      expect(await refuses('create configmap late', told)).toBe(
        'error: failed to create configmap: configmaps "late" is forbidden: ' +
          'unable to create new content in namespace doomed because it is being terminated\n',
      );
      await says(`patch cm held --type=merge -p '{"metadata":{"finalizers":null}}'`, told);
      expect(await deletion).toBe('namespace "doomed" deleted\n');
      expect(await refuses('get namespace doomed')).toContain('(NotFound)');
    });

    test.concurrent('refuses to delete a protected namespace', async () => {
      expect(await refuses('delete namespace default')).toBe(
        'Error from server (Forbidden): namespaces "default" is forbidden: this namespace may not be deleted\n',
      );
    });

    test.concurrent('waits for finalizers by default', async () => {
      await create(configMapManifest('held', {}, { finalizers: ['example.com/hold'] }));
      expect(await says('delete cm held --wait=false')).toBe('configmap "held" deleted\n');
      expect(await says('get cm held -o jsonpath={.metadata.deletionTimestamp}')).toMatch(/^\d{4}-/);
      expect(await refuses('delete cm held --timeout=1s')).toContain(
        '\nerror: timed out waiting for the condition on configmaps/held\n',
      );
    });

    test.concurrent('ends when the last finalizer is gone', async () => {
      await create(configMapManifest('leaving', {}, { finalizers: ['example.com/hold'] }));
      const deletion = says('delete cm leaving');
      await says(`wait cm/leaving '--for=jsonpath={.metadata.deletionTimestamp}'`);
      await says(`patch cm leaving --type=merge -p '{"metadata":{"finalizers":[]}}'`);
      expect(await deletion).toBe('configmap "leaving" deleted\n');
    });
  });

  describe('a dependent of a deleted object', () => {
    const family = async (name: string, dependent: { readonly finalizers?: readonly string[] } = {}) => {
      await create(configMapManifest(name, {}));
      const uid = await says(`get cm ${name} -o jsonpath={.metadata.uid}`);
      const owner = { apiVersion: 'v1', kind: 'ConfigMap', name, uid, blockOwnerDeletion: true };
      await create(configMapManifest(`${name}-child`, {}, { ownerReferences: [owner], ...dependent }));
    };

    test.concurrent('is deleted with its owner', async () => {
      await family('background');
      expect(await says('delete cm background')).toBe('configmap "background" deleted\n');
      await says('wait cm/background-child --for=delete');
    });

    test.concurrent('is deleted before its owner with --cascade=foreground', async () => {
      await family('foreground', { finalizers: ['example.com/hold'] });
      const deletion = says('delete cm foreground --cascade=foreground');
      await says(`wait cm/foreground-child '--for=jsonpath={.metadata.deletionTimestamp}'`);
      expect(await says('get cm foreground -o jsonpath={.metadata.finalizers}')).toBe(
        '["foregroundDeletion"]',
      );
      await says(`patch cm foreground-child --type=merge -p '{"metadata":{"finalizers":null}}'`);
      expect(await deletion).toBe('configmap "foreground" deleted\n');
      expect(await refuses('get cm foreground-child')).toContain('(NotFound)');
    });

    test.concurrent('stays with --cascade=orphan', async () => {
      await family('orphan');
      expect(await says('delete cm orphan --cascade=orphan')).toBe('configmap "orphan" deleted\n');
      expect(await says('get cm orphan-child -o jsonpath={.metadata.ownerReferences}')).toBe('');
    });
  });

  describe('wait', () => {
    const server = 'wait server/db';
    const set = (status: object) =>
      says(`patch server db --subresource=status --type=merge -p '${JSON.stringify({ status })}'`);

    test.concurrent('for a condition, a field, and the deletion', async () => {
      await create(serverManifest('db', { datacenter: 'fra1' }));
      const ready = says(`${server} --for=condition=Ready`);
      await set({ conditions: [{ type: 'Ready', status: 'True' }] });
      expect(await ready).toBe('server.infra.example.com/db condition met\n');

      expect(await refuses(`${server} --for=jsonpath={.status.phase}=Up --timeout=1s`)).toContain(
        'error: timed out waiting for the condition on servers/db\n',
      );
      const up = says(`${server} --for=jsonpath={.status.phase}=Up`);
      await set({ phase: 'Up' });
      expect(await up).toBe('server.infra.example.com/db condition met\n');

      const gone = says(`${server} --for=delete`);
      await says('delete server db');
      expect(await gone).toMatch(/^(server\.infra\.example\.com\/db condition met\n)?$/);
    });

    test.concurrent('for an object that does not exist yet', async () => {
      const created = says('wait cm/awaited --for=create');
      await create(configMapManifest('awaited', {}));
      expect(await created).toBe('configmap/awaited condition met\n');
      expect(await refuses('wait cm/never --for=condition=Ready')).toBe(
        'Error from server (NotFound): configmaps "never" not found\n',
      );
    });
  });
});
