// suite: processes
/** kubectl describes one object from several sources: its fields, references and Events. */
import { describe, expect, test } from 'vitest';

import {
  configMapManifest,
  datacenterManifest,
  deploymentManifest,
  eventManifest,
  serverManifest,
  serviceManifest,
} from '../support/kubectl-objects.ts';
import { describeKubectl } from '../support/kubectl-suite.ts';

const SEED = [
  configMapManifest('settings', { colour: 'red' }, { labels: { team: 'blue' } }),
  { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'password' }, stringData: { user: 'root' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot' } },
  serviceManifest('web', [{ name: 'http', port: 80, targetPort: 8080 }]),
  {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [{ addresses: ['10.1.2.3'] }],
  },
  deploymentManifest('shop', 2),
  {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name: 'shop' },
    spec: { minAvailable: 1, selector: { matchLabels: { app: 'shop' } } },
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name: 'reader' },
    rules: [{ apiGroups: ['apps'], resources: ['deployments'], verbs: ['get', 'list'] }],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'readers' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
    subjects: [{ kind: 'ServiceAccount', name: 'robot', namespace: 'default' }],
  },
  serverManifest('db', { datacenter: 'fra1', units: 9 }),
  datacenterManifest('fra1', { location: 'Frankfurt' }),
];

/** The output with one space between columns: kubectl decides on the width of columns. */
const unpadded = (said: string) =>
  said
    .split('\n')
    .map((line) => line.trim().replaceAll(/\s+/g, ' '))
    .filter((line) => line !== '')
    .join('\n');

describeKubectl('kubectl describe', SEED, (kubectl) => {
  const says = async (command: string) => unpadded(await kubectl.says(command));

  describe('an object', () => {
    test.concurrent.each([
      ['cm settings', ['Name: settings', 'Labels: team=blue', 'Data\n====\ncolour:\n----\nred']],
      ['secret password', ['Type: Opaque', 'Data\n====\nuser: 4 bytes']],
      ['sa robot', ['Image pull secrets: <none>']],
      ['svc web', ['Selector: app=web', 'TargetPort: 8080/TCP\nEndpoints: 10.1.2.3:8080']],
      [
        'deployment shop',
        [
          'Replicas: 2 desired | 0 updated | 0 total | 0 available | 0 unavailable',
          'RollingUpdateStrategy: 25% max unavailable, 25% max surge',
          'Containers:\nmain:\nImage: shop:1',
        ],
      ],
      ['pdb shop', ['Min available: 1\nSelector: app=shop', 'Allowed disruptions: 0']],
      ['role reader', ['deployments.apps [] [] [get list]']],
      ['rolebinding readers', ['Role:\nKind: Role\nName: reader', 'ServiceAccount robot default']],
      ['clusterrole view', ['Name: view', 'pods [] [] [get list watch]']],
      ['ns default', ['Labels: kubernetes.io/metadata.name=default', 'Status: Active']],
      ['server db', ['API Version: infra.example.com/v1\nKind: Server', 'Spec:\nDatacenter: fra1\nUnits: 9']],
      ['crd servers.infra.example.com', ['Plural: servers', 'Stored Versions:\nv1']],
    ])('%s', async (what, parts) => {
      const said = await says(`describe ${what}`);
      for (const part of parts) expect(said).toContain(part);
    });

    test.concurrent('a missing object', async () => {
      expect(await kubectl.refuses('describe server nope')).toBe(
        'Error from server (NotFound): servers.infra.example.com "nope" not found\n',
      );
    });
  });

  describe('its events', () => {
    const COLUMNS = 'Type Reason Age From Message\n---- ------ ---- ---- -------\n';
    const record = async (kind: string, name: string, apiVersion: string, message: string) => {
      const uid = await kubectl.says(`get ${kind} ${name} -o jsonpath={.metadata.uid}`);
      const stdin = eventManifest(`${name}.1`, { apiVersion, kind, name, uid }, message);
      await kubectl.says('create -f -', { stdin });
    };

    test.concurrent.each([
      ['Server', 'db', 'infra.example.com/v1'],
      ['ConfigMap', 'settings', 'v1'],
    ])('of a %s', async (kind, name, apiVersion) => {
      await record(kind, name, apiVersion, 'all is well');
      expect(await says(`describe ${kind} ${name}`)).toMatch(
        new RegExp(`Events:\\n${COLUMNS}Normal Checked \\d+s tester all is well$`),
      );
      expect(await says(`events --for ${kind}/${name}`)).toMatch(
        new RegExp(`LAST SEEN TYPE REASON OBJECT MESSAGE\\n\\S+ Normal Checked ${kind}/${name} all is well$`),
      );
    });

    test.concurrent('none', async () => {
      expect(await says('describe sa robot')).toMatch(/Events: <none>$/);
      expect(await says('events --for sa/robot')).toBe('No events found in default namespace.');
    });
  });
});
