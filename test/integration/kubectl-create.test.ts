// suite: processes
/**
 * kubectl creates objects from command line arguments. It sends most of them as protobuf, and reads them back as JSON.
 */
import { describe, expect, test } from 'vitest';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import { configMapManifest, serverManifest } from '../support/kubectl-objects.ts';
import { describeKubectl } from '../support/kubectl-suite.ts';

describeKubectl('kubectl create', [], (kubectl) => {
  const { says, refuses } = kubectl;
  const ROLE_REF = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' };

  describe('with its generators', () => {
    const read = async (what: string): Promise<unknown> => JSON.parse(await says(`get ${what} -o json`));

    test.concurrent.each([
      ['namespace', 'apart', 'namespace/apart', { status: { phase: 'Active' } }],
      ['configmap', 'settings --from-literal=colour=red', 'configmap/settings', { data: { colour: 'red' } }],
      [
        'secret generic',
        'password --from-literal=user=root',
        'secret/password',
        { type: 'Opaque', data: { user: btoa('root') } },
      ],
      ['serviceaccount', 'robot', 'serviceaccount/robot', { metadata: { name: 'robot' } }],
      [
        'role',
        'reader --verb=get,list --resource=pods,deployments.apps',
        'role.rbac.authorization.k8s.io/reader',
        {
          rules: [
            { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] },
            { apiGroups: ['apps'], resources: ['deployments'], verbs: ['get', 'list'] },
          ],
        },
      ],
      [
        'rolebinding',
        'readers --role=reader --user=bob --serviceaccount=default:robot',
        'rolebinding.rbac.authorization.k8s.io/readers',
        {
          roleRef: ROLE_REF,
          subjects: [
            { apiGroup: ROLE_REF.apiGroup, kind: 'User', name: 'bob' },
            { kind: 'ServiceAccount', name: 'robot', namespace: 'default' },
          ],
        },
      ],
      [
        'clusterrole',
        'health --verb=get --non-resource-url=/healthz',
        'clusterrole.rbac.authorization.k8s.io/health',
        { rules: [{ nonResourceURLs: ['/healthz'], verbs: ['get'] }] },
      ],
      [
        'clusterrole',
        'sum --aggregation-rule=part=yes',
        'clusterrole.rbac.authorization.k8s.io/sum',
        { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { part: 'yes' } }] } },
      ],
      [
        'clusterrolebinding',
        'watchers --clusterrole=view --group=devs',
        'clusterrolebinding.rbac.authorization.k8s.io/watchers',
        {
          roleRef: { ...ROLE_REF, kind: 'ClusterRole', name: 'view' },
          subjects: [{ apiGroup: ROLE_REF.apiGroup, kind: 'Group', name: 'devs' }],
        },
      ],
      [
        'service clusterip',
        'web --tcp=80:8080',
        'service/web',
        {
          spec: {
            type: 'ClusterIP',
            clusterIP: expect.stringMatching(/^10\./) as string,
            ports: [{ name: '80-8080', port: 80, protocol: 'TCP', targetPort: 8080 }],
            selector: { app: 'web' },
          },
        },
      ],
      [
        'service nodeport',
        'out --tcp=443:https --node-port=30443',
        'service/out',
        { spec: { type: 'NodePort', ports: [{ targetPort: 'https', nodePort: 30_443 }] } },
      ],
      [
        'service externalname',
        'elsewhere --external-name=db.example.com',
        'service/elsewhere',
        { spec: { type: 'ExternalName', externalName: 'db.example.com' } },
      ],
      [
        'deployment',
        'shop --image=shop:1 --replicas=2 --port=8080 -- serve -v',
        'deployment.apps/shop',
        {
          spec: {
            replicas: 2,
            template: {
              spec: {
                containers: [
                  {
                    name: 'shop',
                    image: 'shop:1',
                    command: ['serve', '-v'],
                    ports: [{ containerPort: 8080, protocol: 'TCP' }],
                  },
                ],
              },
            },
          },
        },
      ],
      [
        'poddisruptionbudget',
        `budget '--selector=app in (a,b)' --max-unavailable=30%`,
        'poddisruptionbudget.policy/budget',
        {
          spec: {
            maxUnavailable: '30%',
            selector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['a', 'b'] }] },
          },
        },
      ],
    ])('%s %s', async (kind, args, name, object) => {
      expect(await says(`create ${kind} ${args}`)).toBe(`${name} created\n`);
      expect(await read(name)).toMatchObject(object);
    });

    test.concurrent('secret tls', async () => {
      const { cert, key } = await createSandboxTls(new Date());
      const files = `--cert=${kubectl.file(cert)} --key=${kubectl.file(key)}`;
      expect(await says(`create secret tls serving ${files}`)).toBe('secret/serving created\n');
      expect(await read('secret/serving')).toMatchObject({
        type: 'kubernetes.io/tls',
        data: { 'tls.crt': expect.any(String) as string, 'tls.key': expect.any(String) as string },
      });
    });

    test.concurrent('run and expose', async () => {
      expect(await says('run solo --image=solo:1')).toBe('pod/solo created\n');
      expect(await says('expose pod solo --port=80')).toBe('service/solo exposed\n');
      expect(await read('svc/solo')).toMatchObject({ spec: { selector: { run: 'solo' } } });
    });

    test.concurrent('a kind that the sandbox does not serve', async () => {
      expect(await refuses('create job once --image=once:1')).toBe(
        'error: failed to create job: the server could not find the requested resource (post jobs.batch)\n',
      );
    });

    test.concurrent('--dry-run=server shows the result, and --dry-run=client only the object', async () => {
      expect(await says('create deployment dry --image=dry:1 --dry-run=server -o yaml')).toMatch(
        /imagePullPolicy: IfNotPresent[\s\S]*terminationGracePeriodSeconds: 30/,
      );
      expect(await says('create deployment dry --image=dry:1 --dry-run=client')).toBe(
        'deployment.apps/dry created (dry run)\n',
      );
      expect(await refuses('get deployment dry')).toContain('(NotFound)');
    });
  });

  describe('from files', () => {
    test.concurrent('several objects, with generated names', async () => {
      const generated = { ...configMapManifest('', {}), metadata: { generateName: 'note-' } };
      expect(await says('create -f -', { stdin: [generated, generated] })).toMatch(
        /^(configmap\/note-[a-z0-9]{5} created\n){2}$/,
      );
    });

    test.concurrent('an object that exists already', async () => {
      expect(await refuses('create namespace default')).toBe(
        'Error from server (AlreadyExists): namespaces "default" already exists\n',
      );
    });

    test.concurrent('an object in a missing namespace', async () => {
      expect(await refuses('create configmap lost', { namespace: 'nowhere' })).toBe(
        'error: failed to create configmap: namespaces "nowhere" not found\n',
      );
    });

    test.concurrent('an object that violates the schema', async () => {
      const stdin = serverManifest('wrong', { datacenter: 5 });
      expect(await refuses('create -f -', { stdin })).toBe(
        'The Server "wrong" is invalid: spec.datacenter: Invalid value: "integer": ' +
          'spec.datacenter in body must be of type string: "integer"\n',
      );
    });

    test.concurrent('a field that is not in the schema', async () => {
      const stdin = serverManifest('odd', { datacenter: 'fra1', colour: 'red' });
      expect(await refuses('create -f -', { stdin })).toBe(
        'Error from server (BadRequest): error when creating "STDIN": Server in version "v1" cannot be handled as a Server: ' +
          'strict decoding error: unknown field "spec.colour"\n',
      );
      expect(await says('create --validate=warn -f -', { stdin })).toBe(
        'server.infra.example.com/odd created\nWarning: unknown field "spec.colour"\n',
      );
    });
  });
});
