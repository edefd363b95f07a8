/** A problem that needs the attention of the user. */
export interface Attention {
  /** The part of the report. */
  readonly part:
    'leader' | 'authority' | 'servingCerts' | 'injectionTargets' | 'admissionPolicies' | 'restoreWindows';
  /** E.g. `AdmissionPolicy servers`. */
  readonly object: string;
  /** What is wrong, and what to do. */
  readonly message: string;
}

/** A part of the report, and its problems. */
export interface Judged<Part> {
  readonly part: Part;
  readonly attention: readonly Attention[];
}
