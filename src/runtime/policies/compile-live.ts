/** Compiles a policy with what the API server serves now. */
import { compilePolicy, type CompileEnvironment } from '../../admission/policy/compile.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import type { CrdSchemas } from './crd-schemas.ts';
import { governed, resolveKinds, unservedNow, type KindsOptions } from './policy-kinds.ts';

export interface CompileOptions extends Pick<KindsOptions, 'discovery'> {
  readonly schemas: CrdSchemas;
  readonly environment: Pick<CompileEnvironment, 'ownNamespace'>;
}

/** @throws if the API server does not say what the kinds are */
export async function compileLive(policy: AdmissionPolicy, options: CompileOptions, signal: AbortSignal) {
  const kinds = await resolveKinds(policy, options, signal);
  const result = compilePolicy(policy, {
    ...options.environment,
    server: (await options.discovery.serverVersion(signal)).minor,
    resolve: (resource) => kinds.get(groupResourceName(resource)),
    schemas: await schemasOf(policy, options, signal),
  });
  const { match } = result.kind === 'compiled' ? result.policy : result.incomplete;
  // A scope that could lock out the cluster is not a question of kinds.
  const isLockout = result.kind === 'rejected' && result.reason === 'LockoutScope';
  return { result, unserved: isLockout ? undefined : await unservedNow({ match }, options, signal) };
}

/** If the schema of one kind is unknown, no schema is used: an expression or a path may be meant for that kind. */
async function schemasOf(
  { spec }: AdmissionPolicy,
  { schemas }: CompileOptions,
  signal: AbortSignal,
): Promise<readonly JsonObject[]> {
  const all = await Promise.all(
    governed(spec).map((resource) => schemas(resource, spec.match.apiVersions ?? ['*'], signal)),
  );
  return all.includes(undefined) ? [] : all.flatMap((some) => some ?? []);
}
