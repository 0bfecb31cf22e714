package image
import ("testing";"os";"fmt";"encoding/binary")
func TestDbg(t *testing.T){
 f,_:=os.Open("/tmp/kp/linux-image-6.1.0-56-cloud-amd64_6.1.192-2_amd64.deb")
 readPackage(f,func(n string)bool{return kernelName.MatchString(n)},func(n string,b []byte)error{
  v,err:=vmlinux(b); fmt.Println(n,len(b),len(v),err)
  sec:=int64(b[0x1f1]); beg:=(sec+1)*512+int64(binary.LittleEndian.Uint32(b[0x248:])); l:=int64(binary.LittleEndian.Uint32(b[0x24c:]))
  fmt.Printf("%x %d %x ver %x\n", b[beg:beg+8], l, b[beg+l-8:beg+l], b[0x206:0x208])
  return nil})
}
