// suite: processes
/** Reads of the sandbox with the real kubectl: tables, objects, and changes as they happen. */
import { describe, expect, test } from 'vitest';

import {
  configMapManifest,
  datacenterManifest,
  serverManifest,
  serviceManifest,
} from '../support/kubectl-objects.ts';
import { describeKubectl } from '../support/kubectl-suite.ts';
import { cells, type Told } from '../support/kubectl.ts';

const AGE = expect.stringMatching(/^\d+[sm]/) as string;

/** Objects for all tests to read. No test changes them. */
const SEED = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'seen', labels: { team: 'blue' } } },
  ...[
    configMapManifest('settings', { colour: 'red', size: 'two\nlines\n' }),
    serverManifest(
      'db',
      { datacenter: 'fra1', tier: 'gold', units: 9 },
      { labels: { app: 'db', rack: '1' } },
    ),
    serverManifest('web1', { datacenter: 'fra1', units: 2 }, { labels: { app: 'web', rack: '2' } }),
    serverManifest('web2', { datacenter: 'nyc1', units: 4 }, { labels: { app: 'web', rack: '3' } }),
    serviceManifest('web', [
      { name: 'http', port: 80, targetPort: 8080 },
      { name: 'https', port: 443, targetPort: 'tls' },
    ]),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'elsewhere' },
      spec: { type: 'ExternalName', externalName: 'db.example.com' },
    },
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'password' },
      type: 'Opaque',
      stringData: { user: 'root', password: 'hunter2' },
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'shop' },
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: 'shop' } },
        template: {
          metadata: { labels: { app: 'shop' } },
          spec: { containers: [{ name: 'main', image: 'shop:1' }] },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'shop-1' },
      spec: { containers: [{ name: 'main', image: 'shop:1' }] },
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'readers' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
      subjects: [
        { kind: 'User', name: 'bob' },
        { kind: 'ServiceAccount', name: 'robot', namespace: 'seen' },
      ],
    },
  ].map((object) => ({ ...object, metadata: { namespace: 'seen', ...object.metadata } })),
  datacenterManifest('fra1', { location: 'Frankfurt', capacity: 12 }),
  datacenterManifest('nyc1', { location: 'New York', capacity: 3 }),
];

describeKubectl('kubectl get', SEED, (kubectl) => {
  const inSeen: Told = { namespace: 'seen' };
  const says = (command: string) => kubectl.says(command, inSeen);
  const refuses = (command: string) => kubectl.refuses(command, inSeen);

  describe('get', () => {
    const NAMES = { head: ['NAME', 'DATACENTER', 'TIER'], db: ['db', 'fra1', 'gold'] };

    test.concurrent.each([
      ['datacenters', ['NAME', 'LOCATION'], ['fra1', 'Frankfurt'], ['nyc1', 'New York']],
      ['servers', NAMES.head, NAMES.db, ['web1', 'fra1'], ['web2', 'nyc1']],
      ['configmaps', ['NAME', 'DATA', 'AGE'], ['settings', '2', AGE]],
      ['secrets', ['NAME', 'TYPE', 'DATA', 'AGE'], ['password', 'Opaque', '2', AGE]],
      [
        'services -o wide',
        ['NAME', 'TYPE', 'CLUSTER-IP', 'EXTERNAL-IP', 'PORT(S)', 'AGE', 'SELECTOR'],
        ['elsewhere', 'ExternalName', '<none>', 'db.example.com', '<none>', AGE, '<none>'],
        [
          'web',
          'ClusterIP',
          expect.stringMatching(/^10\./) as string,
          '<none>',
          '80/TCP,443/TCP',
          AGE,
          'app=web',
        ],
      ],
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
      ['namespace seen', ['NAME', 'STATUS', 'AGE'], ['seen', 'Active', AGE]],
      [
        'crd servers.infra.example.com',
        ['NAME', 'CREATED AT'],
        ['servers.infra.example.com', expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/) as string],
      ],
      ['servers --show-labels db', [...NAMES.head, 'LABELS'], [...NAMES.db, 'app=db,rack=1']],
      ['servers -L rack db', [...NAMES.head, 'RACK'], [...NAMES.db, '1']],
      ['servers -l app=web,rack!=3', NAMES.head, ['web1', 'fra1']],
      ['servers --field-selector metadata.name=db', NAMES.head, NAMES.db],
      ['servers --sort-by=.spec.units', NAMES.head, ['web1', 'fra1'], ['web2', 'nyc1'], NAMES.db],
      ['servers --chunk-size=1', NAMES.head, NAMES.db, ['web1', 'fra1'], ['web2', 'nyc1']],
      ['servers -A db', ['error: a resource cannot be retrieved by name across all namespaces']],
      ['servers -A -l app=db', ['NAMESPACE', ...NAMES.head], ['seen', ...NAMES.db]],
      ['servers -o custom-columns=N:.metadata.name,U:.spec.units db', ['N', 'U'], ['db', '9']],
      ['servers db --server-print=false', ['NAME', 'AGE'], ['db', AGE]],
      ['servers -o name', ...['db', 'web1', 'web2'].map((name) => [`server.infra.example.com/${name}`])],
      ['servers db --subresource=status', NAMES.head, NAMES.db],
    ])('get %s', async (args, ...lines) => {
      const said = args.includes('-A db') ? refuses(`get ${args}`) : says(`get ${args}`);
      expect(cells(await said)).toEqual(lines);
    });

    test.concurrent('several kinds at once, and all of a category', async () => {
      expect(cells(await says('get server/db dc/nyc1'))).toEqual([
        NAMES.head,
        ['server.infra.example.com/db', 'fra1', 'gold'],
        ['NAME', 'LOCATION'],
        ['datacenter.infra.example.com/nyc1', 'New York'],
      ]);
      const all = (await says('get all -o name')).trim().split('\n');
      expect(all).toEqual(['pod/shop-1', 'service/elsewhere', 'service/web', 'deployment.apps/shop']);
    });

    test.concurrent('an object as YAML and by JSONPath', async () => {
      expect(await says('get dc fra1 -o yaml')).toMatch(
        /^apiVersion: infra\.example\.com\/v1\nkind: Datacenter\nmetadata:\n(?: {2}(?:creationTimestamp|generation|name|resourceVersion|uid): \S+\n){5}spec:\n {2}capacity: 12\n {2}location: Frankfurt\n$/,
      );
      expect(await says("get servers -o 'jsonpath={.items[*].spec.units}'")).toBe('9 2 4');
      expect(await says('get secret password -o jsonpath={.data.password}')).toBe(btoa('hunter2'));
      expect(await says('get server db -o yaml --show-managed-fields')).toMatch(/manager: kubectl-create\n/);
    });

    test.concurrent('a missing object', async () => {
      expect(await refuses('get server nope')).toBe(
        'Error from server (NotFound): servers.infra.example.com "nope" not found\n',
      );
      expect(await refuses('get nonsense')).toBe(
        'error: the server doesn\'t have a resource type "nonsense"\n',
      );
      expect(await kubectl.says('get servers', { namespace: 'empty' })).toBe(
        'No resources found in empty namespace.\n',
      );
      expect(await refuses('get pods --field-selector spec.nope=1')).toContain(
        'field label not supported: spec.nope',
      );
    });
  });

  describe('get -w', () => {
    const note = (name: string, text: string) => configMapManifest(name, { text });

    test.concurrent('prints each change in its own line', async () => {
      const told: Told = { namespace: 'default' };
      await kubectl.says('create -f -', { ...told, stdin: note('watched', 'one') });
      const watch = kubectl.watches('get cm watched -w --output-watch-events', told);
      const printed = (count: number) => watch.lines(count).then(cells);
      expect(await printed(2)).toEqual([
        ['EVENT', 'NAME', 'DATA', 'AGE'],
        ['ADDED', 'watched', '1', AGE],
      ]);
      await kubectl.says(`patch cm watched -p '{"data":{"more":"two"}}'`, told);
      await kubectl.says('delete cm watched', told);
      expect((await printed(4)).slice(2)).toEqual([
        ['MODIFIED', 'watched', '2', AGE],
        ['DELETED', 'watched', '2', AGE],
      ]);
    });

    test.concurrent('omits existing objects with --watch-only', async () => {
      const told: Told = { namespace: 'default' };
      await kubectl.says('create -f -', { ...told, stdin: note('before', 'one') });
      const watch = kubectl.watches('get cm -l new=yes --watch-only -o name', told);
      await watch.established();
      await kubectl.says('label cm before new=yes', told);
      expect(await watch.lines(1)).toBe('configmap/before\n');
    });
  });
});
