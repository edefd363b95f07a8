import type { AdmissionPolicySpec } from '../api/admission-policy.ts';
import type { GroupResource } from '../api/meta.ts';
import type { FieldPath } from './field-path.ts';
import type { JsonValue } from './json.ts';
import type { Operation } from './request.ts';
import type { Scope } from './scope.ts';

/** Which requests a policy governs: as its author wrote it, in one spelling and with what the API defaults. */
export interface CompiledMatch extends Scope {
  readonly apiGroups: readonly string[];
  /** e.g. `servers`, `servers/status`, `servers/*`; none is covered by another. */
  readonly resources: readonly string[];
  readonly operations: readonly Operation[];
}

export interface CompiledDefault {
  readonly path: FieldPath;
  readonly value: JsonValue;
}

export interface CompiledReference {
  readonly name: string;
  readonly path: FieldPath;
  /** Only for namespaced targets; undefined: the namespace of the object itself. */
  readonly namespacePath: FieldPath | undefined;
  readonly target: GroupResource;
  /** For messages, e.g. `Datacenter`. */
  readonly targetKind: string;
  readonly namespaced: boolean;
}

/** An AdmissionPolicy that can be enforced: paths parsed, targets known, nothing left to go wrong at a request. */
export interface CompiledPolicy {
  readonly name: string;
  readonly generation: number;
  /** The webhook entry in which it stands; policies of equal scope share one. */
  readonly entryId: string;
  readonly match: CompiledMatch;
  readonly enforcement: 'Deny' | 'Warn' | 'Audit';
  readonly defaults: readonly CompiledDefault[];
  readonly immutable: readonly FieldPath[];
  readonly references: readonly CompiledReference[];
  /** Whether a restorer may create objects whose references have no target yet. */
  readonly deferReferences: boolean;
  /** What the references name, each once. */
  readonly targets: readonly GroupResource[];
  readonly spec: AdmissionPolicySpec;
}
