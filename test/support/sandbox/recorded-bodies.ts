import type { JsonObject } from '../../../src/json/json.ts';

const RBAC = 'rbac.authorization.k8s.io/v1';

const typed = (type: string, metadata: JsonObject, fields: JsonObject): JsonObject => {
  const [apiVersion = '', kind = ''] = type.split(' ');
  return { apiVersion, kind, metadata, ...fields };
};
const named = (type: string, name: string, fields: JsonObject) => typed(type, { name }, fields);
const labelled = (type: string, name: string, fields: JsonObject = {}) =>
  typed(type, { name, labels: { app: name } }, fields);
const service = (name: string, type: string, spec: JsonObject) =>
  labelled('v1 Service', name, {
    spec: { selector: { app: name }, type, ...spec },
    status: { loadBalancer: {} },
  });
const port = (name: string, number: number, targetPort: number | string): JsonObject => ({
  name,
  protocol: 'TCP',
  port: number,
  targetPort,
});
const budget = (name: string, spec: JsonObject) =>
  named('policy/v1 PodDisruptionBudget', name, { spec, status: {} });
const reads = (group: string, resource: string): JsonObject => ({
  verbs: ['get', 'list'],
  apiGroups: [group],
  resources: [resource],
  resourceNames: ['x'],
});
const subject = (kind: string, name: string) => ({ kind, apiGroup: 'rbac.authorization.k8s.io', name });
const binding = (kind: string, metadata: JsonObject, role: string, subjects: readonly JsonObject[]) => {
  const [of = '', name = ''] = role.split(' ');
  return typed(`${RBAC} ${kind}`, metadata, { subjects, roleRef: subject(of, name) });
};
const review = (type: string, spec: JsonObject) =>
  typed(type.replace(' ', '.k8s.io/v1 '), {}, { spec, status: {} });

const container = {
  name: 'shop',
  image: 'shop:1',
  command: ['serve', '-v'],
  resources: {},
  ports: [{ containerPort: 8080 }],
};
const RECONCILED = {
  name: 'rec',
  namespace: 'default',
  uid: '0c23d700-ed53-47c9-9b8c-055cfab77df5',
  resourceVersion: '46',
  creationTimestamp: '2026-11-21T16:13:29Z',
  labels: { a: 'b' },
  managedFields: [
    {
      manager: 'kubectl',
      operation: 'Update',
      apiVersion: RBAC,
      time: '2026-11-21T16:13:29Z',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:metadata': { 'f:labels': { '.': {}, 'f:a': {} } }, 'f:roleRef': {}, 'f:subjects': {} },
    },
  ],
};

/** Protobuf bodies of kubectl 1.32, each with its object: at least one of every kind. */
export const RECORDED_BODIES: readonly {
  readonly command: string;
  readonly base64: string;
  readonly object: JsonObject;
}[] = [
  {
    command: 'create namespace ns',
    base64: 'azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhoKEgoCbnMSABoAIgAqADIAOABCABIAGgIKABoAIgA=',
    object: named('v1 Namespace', 'ns', { spec: {}, status: {} }),
  },
  {
    command: 'create configmap cm --from-file=blob.bin --from-literal=k=v',
    base64:
      'azhzAAoPCgJ2MRIJQ29uZmlnTWFwEjAKEgoCY20SABoAIgAqADIAOABCABIGCgFrEgF2GhIKCGJsb2IuYmluEgb//gBiaW4aACIA',
    object: named('v1 ConfigMap', 'cm', { data: { k: 'v' }, binaryData: { 'blob.bin': '//4AYmlu' } }),
  },
  {
    command: 'create secret generic pw --from-literal=user=root',
    base64: 'azhzAAoMCgJ2MRIGU2VjcmV0EiQKEgoCcHcSABoAIgAqADIAOABCABIMCgR1c2VyEgRyb290GgAaACIA',
    object: named('v1 Secret', 'pw', { data: { user: 'cm9vdA==' } }),
  },
  {
    command: 'create serviceaccount robot',
    base64: 'azhzAAoUCgJ2MRIOU2VydmljZUFjY291bnQSFwoVCgVyb2JvdBIAGgAiACoAMgA4AEIAGgAiAA==',
    object: named('v1 ServiceAccount', 'robot', {}),
  },
  {
    command: 'create service clusterip web --tcp=80:8080',
    base64:
      'azhzAAoNCgJ2MRIHU2VydmljZRJpCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEkIKGwoHODAtODA4MBIDVENQGFAiBwgAEJA/GgAoABIKCgNhcHASA3dlYhoAIglDbHVzdGVySVA6AEIAUgBaAGAAaAAaAgoAGgAiAA==',
    object: service('web', 'ClusterIP', { ports: [port('80-8080', 80, 8080)] }),
  },
  {
    command: 'create service nodeport np --tcp=443:https --node-port=30443',
    base64:
      'azhzAAoNCgJ2MRIHU2VydmljZRJuCh0KAm5wEgAaACIAKgAyADgAQgBaCQoDYXBwEgJucBJJCiQKCTQ0My1odHRwcxIDVENQGLsDIgsIARAAGgVodHRwcyjr7QESCQoDYXBwEgJucBoAIghOb2RlUG9ydDoAQgBSAFoAYABoABoCCgAaACIA',
    object: service('np', 'NodePort', { ports: [{ ...port('443-https', 443, 'https'), nodePort: 30443 }] }),
  },
  {
    command: 'create service externalname ext --external-name=db.example.com',
    base64:
      'azhzAAoNCgJ2MRIHU2VydmljZRJdCh8KA2V4dBIAGgAiACoAMgA4AEIAWgoKA2FwcBIDZXh0EjYSCgoDYXBwEgNleHQaACIMRXh0ZXJuYWxOYW1lOgBCAFIOZGIuZXhhbXBsZS5jb21aAGAAaAAaAgoAGgAiAA==',
    object: service('ext', 'ExternalName', { externalName: 'db.example.com' }),
  },
  {
    command: 'create deployment shop --image=shop:1 --replicas=2 --port=8080 -- serve -v',
    base64:
      'azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EsgBCiEKBHNob3ASABoAIgAqADIAOABCAFoLCgNhcHASBHNob3ASlAEIAhINCgsKA2FwcBIEc2hvcBp5Ch0KABIAGgAiACoAMgA4AEIAWgsKA2FwcBIEc2hvcBJYEjoKBHNob3ASBnNob3A6MRoFc2VydmUaAi12KgAyCwoAEAAYkD8iACoAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA',
    object: {
      ...labelled('apps/v1 Deployment', 'shop'),
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: 'shop' } },
        strategy: {},
        template: { metadata: { labels: { app: 'shop' } }, spec: { containers: [container] } },
      },
      status: {},
    },
  },
  {
    command: 'create pdb pdb --selector="app in (a,b)" --max-unavailable=30%',
    base64:
      'azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSQQoTCgNwZGISABoAIgAqADIAOABCABIeEhESDwoDYXBwEgJJbhoBYRoBYhoJCAEQABoDMzAlGgoIABgAIAAoADAAGgAiAA==',
    object: budget('pdb', {
      selector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['a', 'b'] }] },
      maxUnavailable: '30%',
    }),
  },
  {
    command: 'create pdb least --selector=app=a --min-available=1',
    base64:
      'azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOQoVCgVsZWFzdBIAGgAiACoAMgA4AEIAEhQKBggAEAEaABIKCggKA2FwcBIBYRoKCAAYACAAKAAwABoAIgA=',
    object: budget('least', { minAvailable: 1, selector: { matchLabels: { app: 'a' } } }),
  },
  {
    command: 'create role reader --verb=get,list --resource=pods,deployments.apps --resource-name=x',
    base64:
      'azhzAAokChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgRSb2xlElMKFgoGcmVhZGVyEgAaACIAKgAyADgAQgASFgoDZ2V0CgRsaXN0EgAaBHBvZHMiAXgSIQoDZ2V0CgRsaXN0EgRhcHBzGgtkZXBsb3ltZW50cyIBeBoAIgA=',
    object: named(`${RBAC} Role`, 'reader', { rules: [reads('', 'pods'), reads('apps', 'deployments')] }),
  },
  {
    command: 'create rolebinding readers --role=reader --user=bob --serviceaccount=ns:robot',
    base64:
      'azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtSb2xlQmluZGluZxKNAQoXCgdyZWFkZXJzEgAaACIAKgAyADgAQgASKAoEVXNlchIZcmJhYy5hdXRob3JpemF0aW9uLms4cy5pbxoDYm9iIgASHQoOU2VydmljZUFjY291bnQSABoFcm9ib3QiAm5zGikKGXJiYWMuYXV0aG9yaXphdGlvbi5rOHMuaW8SBFJvbGUaBnJlYWRlchoAIgA=',
    object: binding('RoleBinding', { name: 'readers' }, 'Role reader', [
      subject('User', 'bob'),
      { kind: 'ServiceAccount', name: 'robot', namespace: 'ns' },
    ]),
  },
  {
    command: 'create clusterrole raw --verb=get --non-resource-url=/healthz',
    base64:
      'azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtDbHVzdGVyUm9sZRImChMKA3JhdxIAGgAiACoAMgA4AEIAEg8KA2dldCoIL2hlYWx0aHoaACIA',
    object: named(`${RBAC} ClusterRole`, 'raw', {
      rules: [{ verbs: ['get'], nonResourceURLs: ['/healthz'] }],
    }),
  },
  {
    command: 'create clusterrole sum --aggregation-rule=a=b',
    base64:
      'azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtDbHVzdGVyUm9sZRIhChMKA3N1bRIAGgAiACoAMgA4AEIAGgoKCAoGCgFhEgFiGgAiAA==',
    object: named(`${RBAC} ClusterRole`, 'sum', {
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: 'b' } }] },
    }),
  },
  {
    command: 'create clusterrolebinding devs --clusterrole=raw --group=devs',
    base64:
      'azhzAAoyChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEhJDbHVzdGVyUm9sZUJpbmRpbmcScQoUCgRkZXZzEgAaACIAKgAyADgAQgASKgoFR3JvdXASGXJiYWMuYXV0aG9yaXphdGlvbi5rOHMuaW8aBGRldnMiABotChlyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvEgtDbHVzdGVyUm9sZRoDcmF3GgAiAA==',
    object: binding('ClusterRoleBinding', { name: 'devs' }, 'ClusterRole raw', [subject('Group', 'devs')]),
  },
  {
    command:
      'create token robot --duration=1h --audience=vault --bound-object-kind=Secret --bound-object-name=pw --bound-object-uid=…',
    base64:
      'azhzAAooChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESDFRva2VuUmVxdWVzdBJcChAKABIAGgAiACoAMgA4AEIAEkIKBXZhdWx0GjYKBlNlY3JldBICdjEaAnB3IiQ1MTc0Yjc0Ni1lNDljLTQzNzAtYWMxNy0xZWE1YmE1ZGI3ZGEgkBwaBAoAEgAaACIA',
    object: review('authentication TokenRequest', {
      audiences: ['vault'],
      expirationSeconds: 3600,
      boundObjectRef: {
        kind: 'Secret',
        apiVersion: 'v1',
        name: 'pw',
        uid: '5174b746-e49c-4370-ac17-1ea5ba5db7da',
      },
    }),
  },
  {
    command: 'auth can-i get pods/web --subresource=log',
    base64:
      'azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSQgoQCgASABoAIgAqADIAOABCABIkCiIKB2RlZmF1bHQSA2dldBoAIgAqBHBvZHMyA2xvZzoDd2ViGggIABIAGgAgABoAIgA=',
    object: review('authorization SelfSubjectAccessReview', {
      resourceAttributes: {
        namespace: 'default',
        verb: 'get',
        resource: 'pods',
        subresource: 'log',
        name: 'web',
      },
    }),
  },
  {
    command: 'auth can-i get /healthz',
    base64:
      'azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSLwoQCgASABoAIgAqADIAOABCABIREg8KCC9oZWFsdGh6EgNnZXQaCAgAEgAaACAAGgAiAA==',
    object: review('authorization SelfSubjectAccessReview', {
      nonResourceAttributes: { path: '/healthz', verb: 'get' },
    }),
  },
  {
    command: 'auth can-i --list',
    base64:
      'azhzAAoxChdhdXRob3JpemF0aW9uLms4cy5pby92MRIWU2VsZlN1YmplY3RSdWxlc1JldmlldxIjChAKABIAGgAiACoAMgA4AEIAEgkKB2RlZmF1bHQaBBgAIgAaACIA',
    object: review('authorization SelfSubjectRulesReview', { namespace: 'default' }),
  },
  {
    command: 'auth whoami',
    base64:
      'azhzAAotChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESEVNlbGZTdWJqZWN0UmV2aWV3EhoKEAoAEgAaACIAKgAyADgAQgASBgoECgASABoAIgA=',
    object: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'SelfSubjectReview',
      metadata: {},
      status: { userInfo: {} },
    },
  },
  {
    command: 'auth reconcile: a changed RoleBinding',
    base64:
      'azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtSb2xlQmluZGluZxLwAgrpAQoDcmVjEgAaB2RlZmF1bHQiACokMGMyM2Q3MDAtZWQ1My00N2M5LTliOGMtMDU1Y2ZhYjc3ZGY1MgI0NjgAQggIqYaH2AYQAFoGCgFhEgFiigGVAQoHa3ViZWN0bBIGVXBkYXRlGhxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxIggIqYaH2AYQADIIRmllbGRzVjE6TgpMeyJmOm1ldGFkYXRhIjp7ImY6bGFiZWxzIjp7Ii4iOnt9LCJmOmEiOnt9fX0sImY6cm9sZVJlZiI6e30sImY6c3ViamVjdHMiOnt9fUIAEigKBFVzZXISGXJiYWMuYXV0aG9yaXphdGlvbi5rOHMuaW8aA2JvYiIAEigKBFVzZXISGXJiYWMuYXV0aG9yaXphdGlvbi5rOHMuaW8aA2FubiIAGi4KGXJiYWMuYXV0aG9yaXphdGlvbi5rOHMuaW8SC0NsdXN0ZXJSb2xlGgR2aWV3GgAiAA==',
    object: binding('RoleBinding', RECONCILED, 'ClusterRole view', [
      ...[subject('User', 'bob'), subject('User', 'ann')],
    ]),
  },
  {
    command: 'auth reconcile: a RoleBinding to another role, which is deleted first',
    base64:
      'azhzAAotChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEg1EZWxldGVPcHRpb25zEigSJgokMGMyM2Q3MDAtZWQ1My00N2M5LTliOGMtMDU1Y2ZhYjc3ZGY1GgAiAA==',
    object: {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'DeleteOptions',
      preconditions: { uid: '0c23d700-ed53-47c9-9b8c-055cfab77df5' },
    },
  },
];
