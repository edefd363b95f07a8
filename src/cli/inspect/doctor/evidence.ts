/** All that the checks judge. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { ConversionPolicy } from '../../../api/conversion-policy.ts';
import type { ObjectMeta, KubeObject, Condition } from '../../../json/kube-object.ts';
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { AccessQuestion } from '../../../kube/access.ts';
import type { LeaseObject } from '../../../kube/lease-record.ts';
import type { RawTarget } from '../../../pki/injection/target.ts';
import type { GovernedKind } from './governed-access.ts';
import type { Look } from './look.ts';
import type { ProbeAnswer } from './probe.ts';

export interface Definition extends RawTarget {
  readonly spec?: NonNullable<RawTarget['spec']> & {
    readonly versions?: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly schema?: { readonly openAPIV3Schema?: object };
    }[];
  };
  readonly status?: { readonly conditions?: readonly Pick<Condition, 'type' | 'status' | 'message'>[] };
}

export interface LiveService extends KubeObject {
  readonly spec?: {
    readonly type?: string;
    readonly ports?: readonly { readonly port: number; readonly targetPort?: number | string }[];
  };
}

export interface EndpointSlice extends KubeObject {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    /** Absent: ready. */
    readonly conditions?: { readonly ready?: boolean };
  }[];
  readonly ports?: readonly { readonly port?: number }[];
}

export interface LiveConfiguration extends RawTarget {
  readonly webhooks?: readonly (NonNullable<RawTarget['webhooks']>[number] & {
    readonly failurePolicy?: 'Fail' | 'Ignore';
  })[];
}

/** Somebody else's object, as far as it matters who claims it. */
export interface Claimed {
  readonly kind: string;
  readonly metadata: ObjectMeta & Pick<NonNullable<RawTarget['metadata']>, 'managedFields'>;
}

export interface Access {
  readonly asked: number;
  readonly refused: readonly AccessQuestion[];
}

export interface GovernedAccess {
  readonly asked: number;
  readonly refused: readonly GovernedKind[];
}

export interface Evidence {
  /** By the API server. */
  readonly now: Date;
  /** By how much this machine is ahead of the API server, in milliseconds; undefined: it never said. */
  readonly skewMs: number | undefined;
  readonly namespace: string;
  readonly serviceAccount: string;
  /** Those of Gatehouse, by name. */
  readonly definitions: Look<ReadonlyMap<string, Definition>>;
  readonly access: Look<Access>;
  readonly governed: Look<GovernedAccess>;
  readonly service: Look<LiveService | undefined>;
  readonly slices: Look<readonly EndpointSlice[]>;
  readonly mutating: Look<LiveConfiguration | undefined>;
  readonly validating: Look<LiveConfiguration | undefined>;
  readonly probe: Look<ProbeAnswer>;
  /** The CA bundle that Gatehouse publishes, PEM. */
  readonly bundle: Look<string | undefined>;
  /** The serving cert of Gatehouse with what stands between, PEM. */
  readonly chain: Look<string | undefined>;
  /** The definitions that ConversionPolicies name. */
  readonly converted: Look<readonly Definition[]>;
  readonly lease: Look<LeaseObject | undefined>;
  /** Services, definitions, APIServices, configurations, serving Secrets. */
  readonly claimed: readonly Look<readonly Claimed[]>[];
  readonly policies: Look<readonly AdmissionPolicy[]>;
  readonly conversions: Look<readonly ConversionPolicy[]>;
  readonly detectors: Look<readonly RestoreDetector[]>;
  readonly windows: Look<readonly RestoreWindow[]>;
}
