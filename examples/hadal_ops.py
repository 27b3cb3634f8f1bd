"""The kernels of Hadal from Python: ctypes over include/hadal_ops.h, arrays of any library.

Arguments mirror the structs of src/ops/*.h field by field; hd_ops_choose refuses a struct of
another size, so a mirror that is out of date is found by its first call.  Pointers are integers:
`tensor.data_ptr()` of torch, `array.ctypes.data` of numpy.  The arrays behind them must live until
the work on the stream is done.
"""
import ctypes as c

HOST = 0x07  # base/cpu.h: REF, AVX2, AVX512
GPU = 0x30   # CUDA, SM90
SM90 = 0x20
NVFP4 = 5    # quant/matrix.h: HD_FMT_NVFP4


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("where", c.c_int64), ("message", c.c_char * 512)]


def _struct(name, **fields):
    return type(name, (c.Structure,), {"_fields_": list(fields.items())})


P, I, F, B = c.c_void_p, c.c_int32, c.c_float, c.c_bool
CODES = dict(has_codes=B, x_codes=P, x_sf=P, x_scale=P)
Gemm = _struct("Gemm", x=P, w=P, sf=P, y=P, t=I, n=I, k=I, g=I, w_scale=F, **CODES)
GroupedGemm = _struct("GroupedGemm", x=P, ids=P, w=P, sf=P, w_scale=P, y=P, t=I, s=I, xs=I, n=I,
                      k=I, e=I, **CODES)
Router = _struct("Router", logits=P, bias=P, table=P, token=P, ids=P, w=P, t=I, s=I, e=I, vocab=I,
                 scale=F, scoring=c.c_int, is_hash=B, has_pairs=B, pairs=P)
SwiGLU = _struct("SwiGLU", gate=P, up=P, w=P, y=P, r=I, n=I, limit=F, has_w=B,
                 is_paired=B, gate_up=P)
MoeSum = _struct("MoeSum", y=P, w=P, shared=P, out=P, t=I, s=I, d=I, has_w=B)


class Ops:
    """One loaded library.  `isa` names the families to choose from: HOST or GPU."""

    def __init__(self, path, isa):
        self.lib = c.CDLL(path)
        self.lib.hd_ops_families.restype = c.c_uint32
        self.lib.hd_ops_kernel_name.restype = c.c_char_p
        self.lib.hd_ops_kernel_name.argtypes = [P]
        self.lib.hd_ops_choose.argtypes = [P, c.c_char_p, P, c.c_size_t, c.c_uint32, P]
        self.lib.hd_ops_launch.argtypes = [P, P, P, P]
        self.isa = isa & self.lib.hd_ops_families()

    def to_tiles(self, n, k, codes, sf, codes_out, sf_out):
        """Moves an NVFP4 matrix [n, k] in host memory from rows to tiles (quant/tiles.h), in which
        Hopper's kernels take it: the ops gemm_nvfp4_tiles and grouped_gemm_nvfp4_tiles."""
        self.lib.hd_tiles_move_codes(NVFP4, n, k, P(codes), P(codes_out))
        self.lib.hd_tiles_move_scales(NVFP4, n, k, P(sf), P(sf_out))

    def _try(self, status, error):
        if status:
            raise RuntimeError(error.message.decode())

    def choose(self, op, args):
        """The kernel for these dimensions; choose once, launch often."""
        kernel, error = P(), Error()
        self._try(self.lib.hd_ops_choose(c.byref(kernel), op.encode(), c.byref(args),
                                         c.sizeof(args), self.isa, c.byref(error)), error)
        return kernel

    def name(self, kernel):
        return self.lib.hd_ops_kernel_name(kernel).decode()

    def launch(self, kernel, args, stream=None):
        error = Error()
        self._try(self.lib.hd_ops_launch(kernel, c.byref(args), stream, c.byref(error)), error)
