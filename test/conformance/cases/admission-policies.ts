/** Admission policies as a client of a shared API server sees them; test/data/policies-1.37.jsonl holds most of their rules. */
import type { Api } from '../api.ts';
import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';

const GROUP = '/apis/admissionregistration.k8s.io/v1';

/** Creates a policy for the ConfigMaps of the case, and waits until a request shows that it is in force. */
async function enforce(api: Api, policy: object, binding: object, isInForce: (error: string) => boolean) {
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] };
  const namespaceSelector = { matchLabels: { case: api.id } };
  await api.given.create(`${GROUP}/validatingadmissionpolicies`, {
    metadata: { name: api.id },
    spec: { matchConstraints: { resourceRules: [rule], namespaceSelector }, ...policy },
  });
  await api.given.create(`${GROUP}/validatingadmissionpolicybindings`, {
    metadata: { name: api.id },
    spec: { policyName: api.id, ...binding },
  });
  await api.eventually('the policy is in force', async () => {
    const answer = await api.given.create('configmaps?dryRun=All', configMap('probe')).then(String, String);
    if (!isInForce(answer)) throw new Error(answer);
  });
}

export const admissionPolicies = group('admission policies', {
  'one audit annotation holds all failures': {
    since: '1.37', // publishValidationFailureAnnotations; before that, it holds the first one
    run: async (api) => {
      const validations = ['first', 'second'].map((message) => ({ expression: 'false', message }));
      const actions = { validationActions: ['Deny', 'Audit'] };
      await enforce(api, { validations }, actions, (error) => error.includes('first'));
      await api.create('configmaps', configMap('a'));
      const { annotations } = await api.audited(
        ({ requestURI }) => requestURI === `/api/v1/namespaces/${api.id}/configmaps`,
      );
      const failures = annotations?.['validation.policy.admission.k8s.io/validation_failure'] ?? '[]';
      api.note('the failures', JSON.parse(failures));
    },
  },
  'a new param is found at once': {
    since: '1.37', // getParamDirectly; before that, only once it is in a cache
    run: async (api) => {
      const policy = {
        paramKind: { apiVersion: 'conformance.example.com/v1', kind: 'Widget' },
        validations: [{ expression: 'object.metadata.name == params.spec.code' }],
      };
      const paramRef = { name: 'params', parameterNotFoundAction: 'Deny' };
      const binding = { paramRef, validationActions: ['Deny'] };
      await enforce(api, policy, binding, (error) => error.includes('no params found'));
      await api.given.create(widgets(api), widget('params', { code: 'a' }));
      await api.create('configmaps', configMap('a'), { show: ({ metadata }) => metadata.name });
    },
  },
  'a binding is not overwritten': async (api) => {
    const path = `${GROUP}/validatingadmissionpolicybindings`;
    const spec = { policyName: 'none', validationActions: ['Audit'] };
    await api.given.create(path, { metadata: { name: api.id }, spec });
    await api.update(`${path}/${api.id}`, { metadata: { name: api.id }, spec });
  },
});
