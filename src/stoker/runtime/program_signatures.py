r"""The signs of the program itself: what it is made of, its data, its tensors, its checkpoints. A part of signature_table.py."""

from __future__ import annotations

from typing import Tuple

from .signature_row import BEFORE, CAUSE, ELSEWHERE, NEVER, Signature

RAISED = frozenset(
    "OTHER_VERSION NO_LAUNCHER ENVIRONMENT_VARIABLE SHAPES OTHER_DEVICE OTHER_TYPE UNUSED_PARAMETERS GRADIENT ENCODING BAD_DATA"
    " FORKED_CUDA RECURSION WEIGHTS_ONLY NAN LOGIN DOWNLOAD CUDA_LIBRARY".split()
)
"""The signs of exceptions: of a program that a signal killed without a traceback, such a line is but something it printed."""

PROGRAM_SIGNATURES: Tuple[Signature, ...] = (
    # The program and what it is made of.
    Signature(
        "INSTALL",
        NEVER,
        CAUSE,
        (
            r"the installer ended with status \d+:",
            r"ERROR: No matching distribution found for",
            r"No solution found when resolving",
            r"ERROR: Failed (?:to build|building wheel)",
            r"error: subprocess-exited-with-error",
            r"ERROR: ResolutionImpossible",
            r"Failed to build `",
            r"(?:error|ERROR): .* is not a supported wheel on this platform",
        ),
    ),
    Signature(
        "ABI",
        NEVER,
        CAUSE,
        (
            r"\bundefined symbol: ",
            r"version `(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found",
            r"numpy\.dtype size changed, may indicate binary incompatibility",
            r"A module that was compiled using NumPy 1\.x cannot be run in",
            r"does not match the version torch was compiled with",
            r"The detected CUDA version .* mismatches the version that was used to compile",
            r"jaxlib version .* is (?:newer|older) than and incompatible|jaxlib is version .*, but this version",
            r"\.so[\w.]*: (?:file too short|invalid ELF header|wrong ELF class)",
            r"Descriptors cannot be created directly|Descriptors cannot not be created directly",
            r"numpy\.core\.multiarray failed to import|_ARRAY_API not found",
            r"API mismatch: |RuntimeError: module compiled against A(?:B|P)I version",
            r"Couldn't load custom C\+\+ ops|operator torchvision::\w+ does not exist",
            r"CUDA Setup failed despite (?:GPU|CUDA) being available",
            r"No operator found for `memory_efficient_attention|xFormers can't load C\+\+/CUDA extensions",
            r"Unsupported gpu architecture 'compute_\d+'",
            r"detected .*PyTorch.* compiled with different CUDA|compiled with different CUDA major versions",
        ),
    ),
    Signature(
        "COMPILER",
        ELSEWHERE,
        CAUSE,
        (
            r"Failed to find C compiler",
            r"CUDA_HOME environment variable is not set",
            r"Error building extension '",
            r"Ninja is required to load C\+\+ extensions",
            r"(?:No such file or directory|not found)\b.*\bnvcc\b|\bnvcc\b.*(?:No such file or directory|: not found)",
            r"ptxas returned an error|Failed to launch ptxas|Couldn't invoke ptxas|Can't find libdevice directory",
            r"error: command '\S*(?:gcc|g\+\+|cc1plus|nvcc)\S*' failed|: fatal error: \S+\.h: No such file",
            r"InvalidCxxCompiler|fatal error: Python\.h",
        ),
    ),
    Signature("MISSING_LIBRARY", ELSEWHERE, CAUSE, (r"\blib[\w.+-]+\.so[\w.]*: cannot open shared object file",)),
    Signature(
        "OTHER_VERSION",
        NEVER,
        CAUSE,
        (
            BEFORE + r"ModuleNotFoundError: No module named '(?:pkg_resources|imp|distutils|sklearn\.externals\b.*)'",
            BEFORE
            + r"ModuleNotFoundError: No module named '(?:torch|tensorflow|keras|jax|flax|numpy|scipy|sklearn|pandas"
            r"|transformers|diffusers|torchvision|torchtext|torchaudio|pytorch_lightning|lightning|ray|apex|google\.protobuf)\.[\w.]+'",
            r"AttributeError: module '(?:numpy|tensorflow|jax|keras|torch(?!\._C)|pandas|sklearn|scipy|networkx|PIL)[\w.]*'"
            r" has no attribute ",
            r"deprecated in the new Keras optimizer",
            r"TypeError: .*got an unexpected keyword argument '",
            r"ImportError: cannot import name '\w+' from '(?:numpy|tensorflow|jax|keras|torch|pandas|sklearn|scipy|transformers"
            r"|diffusers|huggingface_hub|accelerate|collections|typing)\b",
            r"`?np\.\w+`? was removed in the NumPy 2\.0 release",
            r"Argument\(s\) not recognized: ",
            r"has been removed (?:in|from|since) (?:version|v|PyTorch|NumPy|Keras|\d)",
            r"is not supported in Keras 3|Keras 3 only supports|[Tt]he file(?:path|name) (?:provided )?must end in `\.",
            r"Your currently installed version of Keras is Keras 3",
        ),
    ),
    Signature(
        "MISSING_MODULE",
        NEVER,
        CAUSE,
        (
            r"ImportError: .*(?:requires the \S+ library but it was not found|[Pp]lease (?:run|install|try)|[Pp]ip install)",
            r"[Yy]ou need to have \S+ installed|[Mm]issing optional dependency '",
            r"ModuleNotFoundError: No module named ",
            r"\bpython[\d.]*: No module named ",
            r"Error while finding module specification for ",
            r"\.__main__; '.*' is a package and cannot be directly executed",
        ),
    ),
    Signature(
        "MISSING_NAME",
        NEVER,
        CAUSE,
        (
            BEFORE + r"ImportError: cannot import name ",
            BEFORE + r"AttributeError: (?:partially initialized )?module '.*has no attribute",
        ),
    ),
    Signature("SYNTAX", NEVER, CAUSE, (BEFORE + r"(?:SyntaxError|IndentationError|TabError): ",)),
    Signature(
        "BAD_ARGUMENT",
        NEVER,
        CAUSE,
        (
            r": error: (?:unrecognized arguments|the following arguments are required|one of the arguments)\b",
            r": error: argument .*: (?:invalid|expected|not allowed)",
            r"^Error: (?:No such option|Missing (?:option|argument|parameter)|Invalid value for)\b",
            r"FATAL Flags parsing error",
        ),
    ),
    Signature(
        "NO_LAUNCHER",
        NEVER,
        CAUSE,
        (
            BEFORE + r"KeyError: '(?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_\w+|OMPI_\w+)'",
            r"environment variable (?:RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT) expected, but not set",
            r"Default process group has not been initialized",
        ),
    ),
    Signature(
        "ENVIRONMENT_VARIABLE",
        NEVER,
        CAUSE,
        (
            r"\benviron\[.*\n(?:[^\n]*\n){0,4}KeyError: '\w+'$",
            r"(?:os\.py|<frozen os>)\W.*\n(?:[^\n]*\n){0,3}KeyError: '\w+'$",
        ),
    ),
    # Tensors and gradients.
    Signature(
        "SHAPES",
        NEVER,
        CAUSE,
        (
            r"mat1 and mat2 shapes cannot be multiplied|size mismatch, (?:m1|got)",
            r"stack expects each tensor to be equal size",
            r"The size of tensor a \(\d+\) must match the size of tensor b",
            r"shape '.*' is invalid for input of size|cannot reshape (?:array|a tensor)",
            r"Given groups=\d+, weight of size",
            r"Expected (?:input batch_size|target size)|Expected more than 1 value per channel when training",
            r"Expected (?:\d+D|input to|tensor to|\d+-dimensional)\b.*(?:got|but)|Target size .*must be the same as input size",
            r"Sizes of tensors must match except in dimension|Tensors must have same number of dimensions",
            r"Incompatible shapes|Dimensions must be equal|Matrix size-incompatible|Shapes .* (?:are|and .* are) incompatible",
            r"operands could not be broadcast together|shapes .* not aligned|array at index \d+ has size",
            r"is incompatible with the layer|expected (?:axis|min_ndim|ndim)|dot_general requires contracting dim",
            r"setting an array element with a sequence|inhomogeneous (?:shape|part)",
            r"inconsistent numbers of samples|Data cardinality is ambiguous|Reshape your data",
            r"X has \d+ features, but \w+ is expecting|feature_names mismatch|Feature shape mismatch",
            r"(?:Calculated padded input|Kernel) size.* can't be greater than",
            r"The expanded size of the tensor|Mismatch in shape|(?:TypeError|ValueError): .* got incompatible shapes",
        ),
    ),
    Signature(
        "OTHER_DEVICE",
        NEVER,
        CAUSE,
        (
            r"Expected all tensors to be on the same device",
            r"indices should be either on (?:cpu|\w+) or on the same device",
            r"Input type \((?:torch\.)?cuda\.\w+\) and weight type|Input type .* and weight type \((?:torch\.)?cuda",
            r"Expected object of (?:device|backend) type \w+ but got|module must have its parameters and buffers on device",
            r"can't convert (?:cuda|CUDA|cuda:\d+|mps:\d+) (?:device type )?tensor to numpy",
            r"Attempting to deserialize object on (?:a )?CUDA device",
        ),
    ),
    Signature(
        "OTHER_TYPE",
        NEVER,
        CAUSE,
        (
            r"expected (?:scalar type|m1 and m2 to have the same dtype)|Found dtype \w+ but expected",
            r"(?:mat1 and mat2|self and mat2) must have the same dtype",
            r"Input type \(.*\) and (?:weight|bias) type",
            r"not implemented for '(?:Half|BFloat16|Long|Int|Byte|Bool|Char|Float)'",
            r"Expected object of scalar type \w+ but got|Expected tensor for argument #\d+ '\w+' to have",
            r"can only be casted|result type \w+ can't be cast|Only Tensors of floating point",
            r"Cannot convert .* to EagerTensor of dtype|Invalid dtype: object|Failed to convert a NumPy array to a Tensor",
        ),
    ),
    Signature(
        "UNUSED_PARAMETERS",
        NEVER,
        CAUSE,
        (
            r"Expected to have finished reduction in the prior iteration",
            r"Parameter indices which did not receive grad",
            r"Expected to mark a variable ready only once",
        ),
    ),
    Signature(
        "GRADIENT",
        NEVER,
        CAUSE,
        (
            r"has been modified by an inplace operation",
            r"Trying to backward through the graph a second time",
            r"element 0 of tensors does not require grad",
            r"No gradients provided for any variable",
            r"a leaf Variable that requires grad (?:is being used|has been used) in an in-?place",
        ),
    ),
    # Data.
    Signature(
        "ENCODING",
        NEVER,
        CAUSE,
        (BEFORE + r"Unicode(?:Decode|Encode)Error: ",),
    ),
    Signature(
        "BAD_DATA",
        NEVER,
        CAUSE,
        (
            r"\b(?:ParserError|EmptyDataError|JSONDecodeError|UnidentifiedImageError)\b",
            r"Error tokenizing data|cannot identify image file|image file is truncated|could not convert string to float",
            r"Input (?:\w+ )?contains (?:NaN|infinity|missing values)",
            r"num_samples should be a positive integer value, but got num_samples=0",
            r"Found 0 (?:files|images) in|Found no valid file|Couldn't find any class folder",
            r"Invalid JPEG data|Input is empty|corrupted (?:record|image)",
            r"Target \d+ is out of bounds|index out of range in self|Labels? .{0,80} (?:out of|outside) .{0,80}(?:range|bounds)",
            r"label must be in \[0, num_class\)|label and prediction size not match",
            r"Received a label value of -?\d+ which is outside the valid range",
            r"Invalid classes inferred from unique values of",
        ),
    ),
    # Processes of its own.
    Signature(
        "FORKED_CUDA",
        NEVER,
        CAUSE,
        (
            r"Cannot re-initialize CUDA in forked subprocess",
            r"An attempt has been made to start a new process before",
            r"Can't (?:pickle|get) local object|Can't pickle <|cannot pickle '",
        ),
    ),
    Signature("RECURSION", NEVER, CAUSE, (BEFORE + r"RecursionError: ",)),
    # Checkpoints and numbers.
    Signature(
        "WEIGHTS_ONLY",
        NEVER,
        CAUSE,
        (r"Weights only load failed", r"WeightsUnpickler error", r"was not an allowed global by default"),
    ),
    Signature(
        "CHECKPOINT_CORRUPT",
        NEVER,
        CAUSE,
        (
            r"PytorchStreamReader failed",
            r"unexpected EOF, expected \d+ more bytes",
            r"UnpicklingError: (?:invalid load key|pickle data was truncated)",
            r"DataLossError:.*(?:Unable to open table file|not an sstable|[Cc]hecksum does not match)",
            r"Unable to (?:synchronously )?open file \((?:truncated file|file signature not found)",
            r"SafetensorError: Error while deserializing header",
            r"zipfile\.BadZipFile: File is not a zip file",
        ),
    ),
    Signature(
        "CHECKPOINT_MISMATCH",
        NEVER,
        CAUSE,
        (
            r"Error\(s\) in loading state_dict for",
            r"size mismatch for .*: copying a param with shape",
            r"NotFoundError:.*Key .* not found in checkpoint",
            r"Layer count mismatch when loading weights",
            r"Could not locate class '",
            r"Unknown (?:layer|loss function|initializer|regularizer|metric function): '|expected \d+ variables, but received",
            r"\d+ layers into a model with \d+ layers|doesn't match the size of parameter group",
        ),
    ),
    Signature(
        "NAN",
        NEVER,
        CAUSE,
        (
            r"(?:Error|Exception): .*\bloss\b.*\b(?:is|was|became) (?:nan|NaN|inf)\b",
            r"\bNaN loss during training\b",
            r"\bNanLossDuringTrainingError\b",
            r"Function '\w+' returned nan values in its",
            r"(?:had|contains) (?:NaN|Inf)(?:s| values| and Tensor had NaN)",
            r"FloatingPointError: .*(?:nan|NaN|overflow|invalid value)",
            r"^Loss is nan, stopping training",
        ),
    ),
)
