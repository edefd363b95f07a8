/** What to do about a write that the API server refuses: the component of `deploy/` to add, or the policy to change. */
import { groupResourceName } from '../json/kube-object.ts';

/** What to do, from what the API server names: its messages are the same in all versions. */
export function adviceOn(message: string, code = 403): string {
  for (const { pattern, advice } of CAUSES) {
    const [found, ...parts] = pattern.exec(message) ?? [];
    if (found !== undefined) return advice(...parts);
  }
  return code === 403
    ? 'Permit it, or look for the quota or admission policy that forbids it.'
    : 'Correct the object, or the admission policy that refuses it.';
}

type Advice = (name?: string, detail?: string, group?: string) => string;
const CAUSES: readonly { readonly pattern: RegExp; readonly advice: Advice }[] = [
  {
    pattern: /admission webhook "([^"]+)" denied the request/,
    advice: (name = '') => `Change the admission webhook ${name}, or exclude the object from it.`,
  },
  {
    pattern: /AdmissionPolicy '(gatehouse-backstop-[^']+)'.* denied request: .*(ask for it|allows it)/,
    advice: (name = '') => `${name} refuses it: ${COMPAT_ADVICE}.`,
  },
  {
    pattern: /AdmissionPolicy '([^']+)'.* denied request/,
    advice: (name = '') => `Change the admission policy ${name}, or exclude the object from it.`,
  },
  {
    pattern: /(?:exceeded|failed) quota: ([^\s,:]+)/,
    advice: (name = '') => `Raise the ResourceQuota ${name}.`,
  },
  {
    pattern: /(?<!\S)(\S+) "[^"]*" is forbidden: cannot set an ownerRef/,
    advice: (resource = '') =>
      `${grantOf('delete', resource)}: the admission plugin OwnerReferencesPermissionEnforcement requires it.`,
  },
  {
    pattern: /cannot (\S+) resource "([^"]+)" in API group "([^"]*)"/,
    advice: (verb = '', resource = '', group = '') => `${grantOf(verb, resource, group)}.`,
  },
];

const COMPAT_ADVICE =
  'add the component for the value of --compat, deploy/components/openshift-compat or deploy/components/cert-manager-compat';

function grantOf(verb: string, resource: string, group = ''): string {
  const name = groupResourceName({ group, resource });
  const [component] = COMPONENTS.find(([, pattern]) => pattern.test(`${verb} ${name}`)) ?? [];
  return `Permit Gatehouse to ${verb} ${name} (${component === undefined ? 'deploy/base' : `deploy/components/${component}`})`;
}

/** The components of `deploy/` with permissions that `deploy/base` lacks. */
const COMPONENTS = [
  ['delete-secrets', /^delete secrets$/],
  ['openshift-compat', /^patch services$/],
  ['distribute-bundles', /^(create|update|delete) configmaps$|^watch namespaces$/],
  ['cert-manager-compat', / certificates.cert-manager.io$/],
  ['compile-policies', / (validating|mutating)admissionpolic(ies|ybindings)\./],
  ['policy-reports', / (cluster)?(policy)?reports\./],
] as const;
