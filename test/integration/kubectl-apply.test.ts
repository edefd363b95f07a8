// suite: processes
/** Declarative changes: kubectl's client-side three-way merge, and server-side apply. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

import {
  configMapManifest,
  datacenterManifest,
  deploymentManifest,
  serviceManifest,
} from '../support/kubectl-objects.ts';
import { DEPLOY, describeKubectl } from '../support/kubectl-suite.ts';

describeKubectl('kubectl apply', [], (kubectl) => {
  const { says, refuses } = kubectl;
  const apply = (manifest: object, flags = '') => says(`apply ${flags} -f -`, { stdin: manifest });
  const spec = (what: string) =>
    says(`get ${what} -o jsonpath={.spec}`).then((text) => JSON.parse(text) as unknown);

  describe('on the client side', () => {
    test.concurrent(
      'creates, keeps and changes objects, and removes fields that are no longer declared',
      async () => {
        const declared = datacenterManifest('fra1', { location: 'Frankfurt', capacity: 12 });
        expect(await apply(declared)).toBe('datacenter.infra.example.com/fra1 created\n');
        expect(await apply(declared)).toBe('datacenter.infra.example.com/fra1 unchanged\n');
        const less = datacenterManifest('fra1', { location: 'Berlin' });
        expect(await apply(less)).toBe('datacenter.infra.example.com/fra1 configured\n');
        expect(await spec('dc/fra1')).toEqual({ location: 'Berlin' });
      },
    );

    test.concurrent('keeps fields that others have set', async () => {
      await apply(datacenterManifest('nyc1', { location: 'New York' }));
      await says(`patch dc nyc1 --type=merge -p '{"spec":{"capacity":3}}'`);
      await apply(datacenterManifest('nyc1', { location: 'Newark' }));
      expect(await spec('dc/nyc1')).toEqual({ location: 'Newark', capacity: 3 });
    });

    test.concurrent('merges the lists of built-in kinds by their keys', async () => {
      const ports = (...numbers: readonly number[]) =>
        serviceManifest(
          'web',
          numbers.map((port) => ({ name: `p${port}`, port })),
        );
      expect(await apply(ports(80, 81))).toBe('service/web created\n');
      await says(`patch svc web -p '{"spec":{"ports":[{"name":"p90","port":90}]}}'`);
      expect(await apply(ports(80, 82))).toBe('service/web configured\n');
      expect(await says('get svc web -o jsonpath={.spec.ports[*].port}')).toBe('90 80 82');
    });

    test.concurrent('does not change a Deployment with its defaults', async () => {
      expect(await apply(deploymentManifest('shop', 2))).toBe('deployment.apps/shop created\n');
      expect(await apply(deploymentManifest('shop', 2))).toBe('deployment.apps/shop unchanged\n');
      expect(await apply(deploymentManifest('shop', 3))).toBe('deployment.apps/shop configured\n');
    });

    test.concurrent('warns about an object that it did not create', async () => {
      await says('create configmap foreign --from-literal=a=b');
      expect(await apply(configMapManifest('foreign', { a: 'c' }))).toMatch(
        /^configmap\/foreign configured\nWarning: resource configmaps\/foreign is missing the .*last-applied-configuration annotation/,
      );
    });

    test.concurrent('shows the last applied configuration', async () => {
      await apply(configMapManifest('last', { a: 'b' }));
      expect(await says('apply view-last-applied cm/last -o yaml')).toMatch(
        /^apiVersion: v1\ndata:\n {2}a: b\n/,
      );
    });
  });

  describe('without writing', () => {
    test.concurrent('--dry-run=server shows the result', async () => {
      const declared = datacenterManifest('dry1', { location: 'Rome' });
      expect(await apply(declared, '--dry-run=server')).toBe(
        'datacenter.infra.example.com/dry1 created (server dry run)\n',
      );
      await apply(declared);
      expect(await apply(declared, '--dry-run=server')).toBe(
        'datacenter.infra.example.com/dry1 unchanged (server dry run)\n',
      );
      const wrong = datacenterManifest('dry1', { capacity: 'much' });
      expect(await refuses('apply --dry-run=server -f -', { stdin: wrong })).toContain(
        'spec.capacity in body must be of type integer: "string"',
      );
    });

    test.concurrent('diff shows the changes', async () => {
      await apply(datacenterManifest('diff1', { location: 'Rome', capacity: 1 }));
      expect(
        await says('diff -f -', { stdin: datacenterManifest('diff1', { location: 'Rome', capacity: 1 }) }),
      ).toBe('');
      const said = await refuses('diff -f -', {
        stdin: datacenterManifest('diff1', { location: 'Oslo', capacity: 1 }),
      });
      expect(said.split('\n').filter((line) => /^[+-] /.test(line))).toEqual([
        '-  generation: 1',
        '+  generation: 2',
        '-  location: Rome',
        '+  location: Oslo',
      ]);
      expect(await spec('dc/diff1')).toEqual({ location: 'Rome', capacity: 1 });
    });
  });

  describe('on the server side', () => {
    const CONFLICT = 'Please review the fields above--they currently have other managers.';

    test.concurrent('refuses changes of fields of other managers, unless it is forced', async () => {
      const declared = (capacity: number) => datacenterManifest('ssa1', { location: 'Oslo', capacity });
      const applied = 'datacenter.infra.example.com/ssa1 serverside-applied\n';
      expect(await apply(declared(1), '--server-side')).toBe(applied);
      expect(await apply(declared(2), '--server-side')).toBe(applied);

      const other = '--server-side --field-manager=other';
      expect(await refuses(`apply ${other} -f -`, { stdin: declared(3) })).toContain(
        `error: Apply failed with 1 conflict: conflict with "kubectl": .spec.capacity\n${CONFLICT}`,
      );
      expect(await apply(declared(3), `${other} --force-conflicts`)).toBe(applied);
      expect(await spec('dc/ssa1')).toEqual({ location: 'Oslo', capacity: 3 });
      expect(await says('get dc ssa1 -o jsonpath={.metadata.managedFields[*].manager}')).toBe(
        'kubectl other',
      );
    });

    test.concurrent('names all managers in conflict', async () => {
      await apply(datacenterManifest('ssa2', { location: 'Rome', capacity: 1 }), '--server-side');
      await says(`patch dc ssa2 --type=merge -p '{"spec":{"capacity":5}}'`);
      const stdin = datacenterManifest('ssa2', { location: 'Bern', capacity: 2 });
      expect(await refuses('apply --server-side --field-manager=other -f -', { stdin })).toContain(
        [
          'error: Apply failed with 2 conflicts: conflicts with "kubectl":',
          '- .spec.location',
          'conflicts with "kubectl-patch" using infra.example.com/v1:',
          '- .spec.capacity',
          CONFLICT,
        ].join('\n'),
      );
    });

    test.concurrent(
      'takes over from client-side apply, and removes fields that are no longer declared',
      async () => {
        await apply(configMapManifest('moved', { a: 'b', c: 'd' }));
        expect(await apply(configMapManifest('moved', { a: 'b' }), '--server-side')).toBe(
          'configmap/moved serverside-applied\n',
        );
        expect(await says('get cm moved -o jsonpath={.data}')).toBe('{"a":"b"}');
      },
    );

    test.concurrent('creates nothing in a dry run', async () => {
      expect(await apply(configMapManifest('ssa-dry', {}), '--server-side --dry-run=server')).toBe(
        'configmap/ssa-dry serverside-applied (server dry run)\n',
      );
      expect(await refuses('get cm ssa-dry')).toContain('(NotFound)');
    });
  });

  describe('the folders of deploy/', () => {
    test('base, then the examples, twice', async () => {
      const base = await says(`apply -k ${join(DEPLOY, 'base')}`);
      expect(base).toContain('namespace/gatehouse-system created\n');
      for (const process of ['webhook', 'controllers'])
        expect(base).toContain(`deployment.apps/gatehouse-${process} created\n`);
      await says('wait crd --all --for=condition=Established');
      const examples = `-k ${join(DEPLOY, 'examples')}`;
      expect(await says(`apply ${examples}`)).toContain('admissionpolicy.gatehouse.dev/servers created\n');
      expect(await says(`apply ${examples}`)).toBe(
        [
          'customresourcedefinition.apiextensions.k8s.io/datacenters.infra.example.com unchanged',
          'customresourcedefinition.apiextensions.k8s.io/servers.infra.example.com unchanged',
          'clusterrole.rbac.authorization.k8s.io/gatehouse-references-infra unchanged',
          'admissionpolicy.gatehouse.dev/servers unchanged',
          '',
        ].join('\n'),
      );
      expect(await says(`diff ${examples}`)).toBe('');
      expect(await says(`delete ${examples}`)).toContain('admissionpolicy.gatehouse.dev "servers" deleted');
    });
  });
});
