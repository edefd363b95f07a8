import type { CelProgram } from '../../cel/cel.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { GroupResource } from '../../json/kube-object.ts';
import type { ValidationRule } from '../../api/policy-validate.ts';
import type { Principal } from '../../api/principals.ts';
import type { CauseType } from '../review/decision.ts';
import type { CompiledExpression, CompiledVariable } from './expressions/expression.ts';
import type { FieldPath } from '../../json/field-path.ts';
import type { JsonValue } from '../../json/json.ts';
import type { KindLists } from './mutations/list-types.ts';
import type { NormalSelector } from '../../json/label-selector.ts';
import type { MatchCondition, Operation } from '../review/request.ts';
import type { Subresource } from './match/subresources.ts';

/** Policies with the same scope share a webhook entry. */
export interface Scope {
  /** The API server sends an object only in the group and version of one rule of an entry, so others need their own entry. */
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly namespaceSelector: NormalSelector;
  readonly objectSelector: NormalSelector;
  readonly matchConditions: readonly MatchCondition[];
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly timeoutSeconds: number;
}

/** The author's `spec.match`, normalised, with the API's defaults. */
export interface CompiledMatch extends Scope {
  /** e.g. `servers`, `servers/status`, `servers/*`; no pattern covers another. */
  readonly resources: readonly string[];
  readonly operations: readonly Operation[];
  /** The match conditions that read only `object`: they also apply to stored objects. */
  readonly conditionsOnObject: readonly CelProgram[];
}

export type CompiledDefault =
  | { readonly kind: 'value'; readonly path: FieldPath; readonly value: JsonValue }
  | { readonly kind: 'expression'; readonly path: FieldPath; readonly expression: CompiledExpression };

export interface CompiledMutation {
  readonly name: string;
  readonly type: 'Merge' | 'JSONPatch';
  readonly condition: CompiledExpression | undefined;
  readonly change: CompiledExpression;
}

export interface CompiledImmutable {
  readonly path: FieldPath;
  /** Whether a field that was absent may be set later. */
  readonly from: 'creation' | 'first-value';
}

export interface CompiledParams {
  readonly target: GroupResource;
  readonly kind: string;
  /** The version that Gatehouse reads; undefined if it is not known. */
  readonly version: string | undefined;
  readonly name: string;
  /** Undefined for a namespaced kind: use the namespace of the checked object. */
  readonly namespace: string | undefined;
  readonly namespaced: boolean;
  readonly whenMissing: 'Deny' | 'Allow';
}

export interface CompiledUnique {
  readonly name: string;
  readonly paths: readonly FieldPath[];
  readonly scope: 'Cluster' | 'Namespace';
  readonly maxValues: number;
}

export interface CompiledRule {
  /** The name of the rule, or its position: `rules[0]`. */
  readonly name: string;
  readonly expression: CompiledExpression;
  readonly message: string | undefined;
  readonly messageExpression: CompiledExpression | undefined;
  readonly reason: ValidationRule['reason'];
  readonly field: string | undefined;
}

export interface CompiledWarning {
  readonly condition: CompiledExpression | undefined;
  readonly message: string | undefined;
  readonly messageExpression: CompiledExpression | undefined;
}

export interface CompiledAuditAnnotation {
  readonly key: string;
  readonly value: CompiledExpression;
}

/** An absent part matches everything. */
export interface CompiledException extends Partial<
  Record<'users' | 'groups' | 'namespaces' | 'names' | 'checks', readonly string[] | undefined>
> {
  readonly name: string;
  /** In milliseconds since 1970. */
  readonly expiresAt: number | undefined;
  readonly resources?: readonly GroupResource[] | undefined;
  readonly objectSelector: NormalSelector;
}

/** The exceptions that PolicyExceptions grant to objects of a namespace. */
export type Grants = (policy: string, namespace: string) => readonly CompiledException[];

export type SchemaCheck = (object: object) => readonly SchemaFlaw[];

export interface SchemaFlaw {
  readonly field: string;
  readonly reason: CauseType;
  readonly message: string;
  /** Where the violated keyword is in the schema, because two keywords can have the same message. */
  readonly keyword?: string;
  /** Whether the object may have more flaws than the list shows. */
  readonly hasMore?: boolean;
}

/** A kind whose objects every replica caches. */
export interface CompiledTarget extends GroupResource {
  /** Whether expressions read more than the existence of these objects. */
  readonly whole: boolean;
}

export type DeleteAction = 'Cascade' | 'SetNull' | 'SetDefault';

export interface CompiledReference {
  readonly name: string;
  readonly path: FieldPath;
  /** Only for namespaced targets. Undefined: the target is in the namespace of the object. */
  readonly namespacePath: FieldPath | undefined;
  /** The field with the uid of the target, which a restore changes. */
  readonly uidPath: FieldPath | undefined;
  readonly target: GroupResource;
  /** For messages, e.g. `Datacenter`. */
  readonly targetKind: string;
  readonly namespaced: boolean;
  readonly optional: boolean;
  readonly restrictsDelete: boolean;
  /** What Gatehouse does to the objects that reference a deleted target. */
  readonly deleteAction: DeleteAction | undefined;
  readonly defaultTarget: string | undefined;
  /** Whether a new reference and a concurrent deletion of its target exclude each other. */
  readonly serializable: boolean;
}

export interface CompiledPolicy {
  readonly name: string;
  readonly generation: number;
  readonly entryId: string;
  readonly match: CompiledMatch;
  readonly enforcement: 'Deny' | 'Warn' | 'Audit';
  /** Whether an update may keep violations of the schema and of rules that the old object has. */
  readonly allowsExisting: boolean;
  readonly defaults: readonly CompiledDefault[];
  readonly mutations: readonly CompiledMutation[];
  readonly variables: readonly CompiledVariable[];
  readonly params: CompiledParams | undefined;
  readonly schema: SchemaCheck | undefined;
  readonly immutable: readonly CompiledImmutable[];
  readonly references: readonly CompiledReference[];
  readonly unique: readonly CompiledUnique[];
  readonly rules: readonly CompiledRule[];
  readonly warnings: readonly CompiledWarning[];
  readonly auditAnnotations: readonly CompiledAuditAnnotation[];
  readonly exceptions: readonly CompiledException[];
  /** The PolicyExceptions of the stores; undefined if the policy does not accept any. */
  readonly grants: Grants | undefined;
  readonly audit: boolean;
  /** Whether Gatehouse records the owners of the governed objects and links them again after a restore. */
  readonly preservesOwners: boolean;
  readonly restore: {
    readonly defers: Readonly<Record<'references' | 'unique' | 'schema' | 'rules', boolean>>;
    /** Undefined: only if the window includes deletions. */
    readonly defersTargetDelete: boolean | undefined;
    /** Whether a restore may change immutable fields. A sweep cannot check that later. */
    readonly skipsImmutable: boolean;
    readonly skipsMutations: boolean;
    /** The fields with uids of other objects, which a restore changes. */
    readonly uids: readonly FieldPath[];
  };
  /** The principals that may create objects before their targets, even outside a restore. */
  readonly initiallyDeferred:
    | {
        readonly principals: readonly Principal[];
        /** How long a new object may reference a missing target. */
        readonly graceMs: number;
      }
    | undefined;
  /** Why no request can be decided: the version in force does not compile anymore. */
  readonly undecidable?: {
    readonly message: string;
    /** Whether a change of the cluster can end this. */
    readonly isTemporary: boolean;
  };
  /** Without duplicates. */
  readonly targets: readonly CompiledTarget[];
  /** The scale subresources of the custom kinds that it governs. */
  readonly scales: readonly Subresource[];
  /** The lists of the custom kinds that a merge does not replace. */
  readonly lists: readonly KindLists[];
  /** The minor version of the API server of Kubernetes 1 that may enforce its checks; undefined: the newest one. */
  readonly server: number | undefined;
  readonly spec: AdmissionPolicySpec;
}
