// suite: processes
/** The real kubectl against the sandbox: what it prints depends on discovery, OpenAPI, Tables and several requests. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { ControlPlane } from '../support/control-plane.ts';
import { eventually } from '../support/processes.ts';
import { cells, createKubectl, HAS_KUBECTL, type Kubectl, type Told } from '../support/kubectl.ts';
import { startSandboxPlane } from '../support/sandbox-plane.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
const AGE = expect.stringMatching(/^\d+[sm]/) as string;

const manifest =
  (apiVersion: string, kind: string) =>
  (name: string, content: object, meta: object = {}) => ({
    apiVersion,
    kind,
    metadata: { name, ...meta },
    ...content,
  });
const configMap = manifest('v1', 'ConfigMap');
const datacenter = manifest('infra.example.com/v1', 'Datacenter');
const server = manifest('infra.example.com/v1', 'Server');
const service = (...ports: readonly number[]) =>
  manifest('v1', 'Service')('web', {
    spec: { selector: { app: 'web' }, ports: ports.map((port) => ({ name: `p${port}`, port })) },
  });
const deployment = (name: string, replicas: number) => {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: `${name}:1` }] } };
  return manifest('apps/v1', 'Deployment')(name, {
    spec: { replicas, selector: { matchLabels: labels }, template },
  });
};

let plane: ControlPlane;
let kubectl: Kubectl;
const says = (command: string, told?: Told) => kubectl.says(command, told);
const refuses = (command: string, told?: Told) => kubectl.refuses(command, told);
const create = (...objects: readonly object[]) => says('create -f -', { stdin: objects });
const apply = (object: object, flags = '') => says(`apply ${flags} -f -`, { stdin: object });

describe.runIf(HAS_KUBECTL)('kubectl', () => {
  beforeAll(async () => {
    plane = await startSandboxPlane();
    kubectl = createKubectl(plane);
    for (const name of ['datacenter-crd.yaml', 'server-crd.yaml'])
      await says(`create -f ${join(DEPLOY, 'examples', name)}`);
    await says('wait crd --all --for=condition=Established');
  });

  afterAll(async () => {
    kubectl.stop();
    await plane.stop();
  });

  describe('get', () => {
    const seen: Told = { namespace: 'seen' };
    const robot = { kind: 'ServiceAccount', name: 'robot', namespace: 'seen' };

    beforeAll(async () => {
      await says('create namespace seen');
      const stdin = [
        server('db', { spec: { datacenter: 'fra1', tier: 'gold', units: 9 } }, { labels: { app: 'db' } }),
        server('web1', { spec: { datacenter: 'fra1', units: 2 } }, { labels: { app: 'web' } }),
        deployment('shop', 2),
        manifest('v1', 'Pod')('shop-1', { spec: { containers: [{ name: 'main', image: 'shop:1' }] } }),
        manifest('rbac.authorization.k8s.io/v1', 'RoleBinding')('readers', {
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
          subjects: [{ kind: 'User', name: 'bob' }, robot],
        }),
      ];
      await says('create -f -', { ...seen, stdin });
    });

    const NAMES = { head: ['NAME', 'DATACENTER', 'TIER'], db: ['db', 'fra1', 'gold'] };

    test.concurrent.each([
      ['servers --chunk-size=1', NAMES.head, NAMES.db, ['web1', 'fra1']],
      ['servers -A -l app=db', ['NAMESPACE', ...NAMES.head], ['seen', ...NAMES.db]],
      ['servers db --subresource=status', NAMES.head, NAMES.db],
      [
        'deployments -o wide',
        ['NAME', 'READY', 'UP-TO-DATE', 'AVAILABLE', 'AGE', 'CONTAINERS', 'IMAGES', 'SELECTOR'],
        ['shop', '0/2', '0', '0', AGE, 'main', 'shop:1', 'app=shop'],
      ],
      ['pods', ['NAME', 'READY', 'STATUS', 'RESTARTS', 'AGE'], ['shop-1', '0/1', 'Pending', '0', AGE]],
      [
        'rolebindings -o wide',
        ['NAME', 'ROLE', 'AGE', 'USERS', 'GROUPS', 'SERVICEACCOUNTS'],
        ['readers', 'ClusterRole/view', AGE, 'bob', 'seen/robot'],
      ],
      [
        'crd servers.infra.example.com',
        ['NAME', 'CREATED AT'],
        ['servers.infra.example.com', expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/) as string],
      ],
    ])('get %s', async (args, ...lines) => {
      expect(cells(await says(`get ${args}`, seen))).toEqual(lines);
    });

    test.concurrent('all of a category, and kinds and objects that do not exist', async () => {
      expect(await says('get all -o name', seen)).toBe('pod/shop-1\ndeployment.apps/shop\n');
      expect(await refuses('get nonsense')).toContain(
        'the server doesn\'t have a resource type "nonsense"\n',
      );
      expect(await refuses('get server nope', seen)).toBe(
        'Error from server (NotFound): servers.infra.example.com "nope" not found\n',
      );
    });

    test.concurrent('-w prints each change in its own line', async () => {
      await create(configMap('watched', { data: { text: 'one' } }));
      const watch = kubectl.watches('get cm watched -w --output-watch-events');
      const printed = (count: number) => watch.lines(count).then(cells);
      expect(await printed(2)).toEqual([
        ['EVENT', 'NAME', 'DATA', 'AGE'],
        ['ADDED', 'watched', '1', AGE],
      ]);
      await says(`patch cm watched -p '{"data":{"more":"two"}}'`);
      await says('delete cm watched');
      expect((await printed(4)).slice(2)).toEqual([
        ['MODIFIED', 'watched', '2', AGE],
        ['DELETED', 'watched', '2', AGE],
      ]);
    });
  });

  describe('apply', () => {
    const spec = (what: string) =>
      says(`get ${what} -o jsonpath={.spec}`).then((text) => JSON.parse(text) as unknown);

    test.concurrent('creates, keeps and changes objects, and removes undeclared fields', async () => {
      const declared = datacenter('fra1', { spec: { location: 'Frankfurt', capacity: 12 } });
      expect(await apply(declared)).toBe('datacenter.infra.example.com/fra1 created\n');
      expect(await apply(declared)).toBe('datacenter.infra.example.com/fra1 unchanged\n');
      const less = datacenter('fra1', { spec: { location: 'Berlin' } });
      expect(await apply(less)).toBe('datacenter.infra.example.com/fra1 configured\n');
      expect(await spec('dc/fra1')).toEqual({ location: 'Berlin' });
    });

    test.concurrent('merges the lists of built-in kinds by their keys', async () => {
      expect(await apply(service(80, 81))).toBe('service/web created\n');
      await says(`patch svc web -p '{"spec":{"ports":[{"name":"p90","port":90}]}}'`);
      expect(await apply(service(80, 82))).toBe('service/web configured\n');
      expect(await says('get svc web -o jsonpath={.spec.ports[*].port}')).toBe('90 80 82');
    });

    test.concurrent('does not change a Deployment with its defaults', async () => {
      expect(await apply(deployment('shop', 2))).toBe('deployment.apps/shop created\n');
      expect(await apply(deployment('shop', 2))).toBe('deployment.apps/shop unchanged\n');
      expect(await apply(deployment('shop', 3))).toBe('deployment.apps/shop configured\n');
    });

    test.concurrent('and diff show changes without making them', async () => {
      const declared = (location: string) => datacenter('dry1', { spec: { location } });
      expect(await apply(declared('Rome'), '--dry-run=server')).toContain('created (server dry run)\n');
      await apply(declared('Rome'));
      expect(await says('diff -f -', { stdin: declared('Rome') })).toBe('');
      const said = await refuses('diff -f -', { stdin: declared('Oslo') });
      expect(said.split('\n').filter((line) => /^[+-] /.test(line))).toEqual([
        ...['-  generation: 1', '+  generation: 2', '-  location: Rome', '+  location: Oslo'],
      ]);
      expect(await spec('dc/dry1')).toEqual({ location: 'Rome' });
    });

    test.concurrent(
      'on the server side names all managers in conflict, and takes over from the client side',
      async () => {
        await apply(datacenter('ssa', { spec: { location: 'Rome', capacity: 1 } }), '--server-side');
        await says(`patch dc ssa --type=merge -p '{"spec":{"capacity":5}}'`);
        const stdin = datacenter('ssa', { spec: { location: 'Bern', capacity: 2 } });
        expect(await refuses('apply --server-side --field-manager=other -f -', { stdin })).toContain(
          [
            'error: Apply failed with 2 conflicts: conflicts with "kubectl":',
            '- .spec.location',
            'conflicts with "kubectl-patch" using infra.example.com/v1:',
            '- .spec.capacity',
            'Please review the fields above--they currently have other managers.',
          ].join('\n'),
        );
        await apply(configMap('moved', { data: { a: 'b', c: 'd' } }));
        await apply(configMap('moved', { data: { a: 'b' } }), '--server-side');
        expect(await says('get cm moved -o jsonpath={.data}')).toBe('{"a":"b"}');
      },
    );

    test.concurrent('the folders of deploy/: base, then the examples, twice', async () => {
      const base = await says(`apply -k ${join(DEPLOY, 'base')}`);
      for (const process of ['webhook', 'controllers'])
        expect(base).toContain(`deployment.apps/gatehouse-${process} created\n`);
      await says('wait crd --all --for=condition=Established');
      const examples = `-k ${join(DEPLOY, 'examples')}`;
      expect(await says(`apply ${examples}`)).toContain('admissionpolicy.gatehouse.dev/servers created\n');
      expect(await says(`apply ${examples}`)).not.toMatch(/created|configured/);
      expect(await says(`diff ${examples}`)).toBe('');
    });
  });

  describe('changes', () => {
    test.concurrent('edit returns a refused change with the reason', async () => {
      await create(datacenter('broken', { spec: { location: 'Frankfurt', capacity: 12 } }));
      const editor = `grep '^# \\*' "$1" >&2; sed -i 's/capacity: 12/capacity: twelve/' "$1"`;
      expect(await refuses('edit dc broken', { editor })).toMatch(
        /^error: datacenters\.infra\.example\.com "broken" is invalid\n# \* spec\.capacity: Invalid value: "string": spec\.capacity in body must be of type integer: "string"\n[\s\S]*error: Edit cancelled, no valid changes were saved\.\n$/,
      );
      expect(await says('edit dc broken', { editor: `sed -i 's/Frankfurt/Berlin/' "$1"` })).toContain(
        'edited\n',
      );
      expect(await says('get dc broken -o jsonpath={.spec.location}')).toBe('Berlin');
    });

    test.concurrent('replace --force deletes and creates', async () => {
      await create(datacenter('whole', { spec: { location: 'Frankfurt' } }));
      const stdin = datacenter('whole', { spec: { location: 'Rome' } });
      expect(await says('replace --force -f -', { stdin })).toBe(
        'datacenter.infra.example.com "whole" deleted\ndatacenter.infra.example.com/whole replaced\n',
      );
    });

    test.concurrent('set, scale and rollout, for a Deployment without a controller', async () => {
      await create(deployment('rolled', 1));
      expect(await says('set image deployment/rolled main=set:2')).toBe(
        'deployment.apps/rolled image updated\n',
      );
      expect(await says('scale deployment rolled --replicas=3')).toBe('deployment.apps/rolled scaled\n');
      expect(await says('rollout restart deployment rolled')).toBe('deployment.apps/rolled restarted\n');
      expect(await refuses('rollout status deployment rolled --timeout=1s')).toContain(
        'Waiting for deployment spec update to be observed...',
      );
      const counts = ['replicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas'];
      const status = { observedGeneration: 4, ...Object.fromEntries(counts.map((name) => [name, 3])) };
      await says(
        `patch deployment rolled --subresource=status --type=merge -p '${JSON.stringify({ status })}'`,
      );
      expect(await says('rollout status deployment rolled')).toBe(
        'deployment "rolled" successfully rolled out\n',
      );
    });
  });

  describe('waits', () => {
    const hold = { finalizers: ['example.com/hold'] };
    const release = (name: string) =>
      says(`patch cm ${name} --type=merge -p '{"metadata":{"finalizers":null}}'`);

    test.concurrent('for finalizers when it deletes, and gives up at its timeout', async () => {
      await create(configMap('held', {}, hold));
      const deletion = says('delete cm held');
      await eventually('a deletion in progress', async () => {
        const said = await says('get cm held -o jsonpath={.metadata.deletionTimestamp}');
        return said === '' ? undefined : said;
      });
      expect(await refuses('delete cm held --timeout=1s')).toContain(
        'error: timed out waiting for the condition on configmaps/held\n',
      );
      await release('held');
      expect(await deletion).toBe('configmap "held" deleted\n');
    });

    test.concurrent('for dependents with --cascade=foreground', async () => {
      await create(configMap('owner', {}));
      const uid = await says('get cm owner -o jsonpath={.metadata.uid}');
      const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid, blockOwnerDeletion: true };
      await create(configMap('child', {}, { ...hold, ownerReferences: [owner] }));
      const deletion = says('delete cm owner --cascade=foreground');
      await says(`wait cm/child '--for=jsonpath={.metadata.deletionTimestamp}'`);
      await release('child');
      expect(await deletion).toBe('configmap "owner" deleted\n');
      expect(await refuses('get cm child')).toContain('(NotFound)');
    });

    test.concurrent('for a namespace with all its objects', async () => {
      await says('create namespace doomed');
      await says('create -f -', { namespace: 'doomed', stdin: configMap('free', {}) });
      expect(await says('delete namespace doomed')).toBe('namespace "doomed" deleted\n');
    });

    test.concurrent('for a condition, and for an object that does not exist yet', async () => {
      const created = says('wait server/db --for=create');
      await create(server('db', { spec: { datacenter: 'fra1' } }));
      expect(await created).toBe('server.infra.example.com/db condition met\n');
      const ready = says('wait server/db --for=condition=Ready');
      const patch = JSON.stringify({ status: { conditions: [{ type: 'Ready', status: 'True' }] } });
      await says(`patch server db --subresource=status --type=merge -p '${patch}'`);
      expect(await ready).toBe('server.infra.example.com/db condition met\n');
    });
  });
});
